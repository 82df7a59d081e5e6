//! A browser that is controlled by the DevTools protocol over a pipe: pages at any size, keys, and what a page holds.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_live::netns::Namespace;

/// How long a browser may take for a reply on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The browser, if one is installed.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|file| file.is_file())
}

/// A running browser with one page. It is ended when dropped.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    replies: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// Errors that the page reported: exceptions, the console, the log of the browser.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts `program` in `namespace`, with its files in `home`.
    pub fn start(program: &Path, namespace: &Namespace, home: &Path) -> Result<Self, String> {
        // The protocol is on descriptors 3 and 4, which the shell makes of standard input and output.
        let mut command = namespace.command("sh").map_err(|error| error.to_string())?;
        let mut child = command
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"])
            .args(["--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", home.display()))
            .arg("about:blank")
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let input = child.stdin.take().ok_or("no pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let (send, replies) = channel();
        std::thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { child, input, replies, session: None, next: 1, complaints: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }))?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}))?;
        }
        browser.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }))?;
        Ok(browser)
    }

    /// Makes a call of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).map_err(|error| format!("{method}: {error}"))?;
        loop {
            let reply = match self.replies.recv_timeout(LIMIT) {
                Ok(reply) => reply,
                Err(RecvTimeoutError::Timeout) => return Err(format!("{method}: no reply")),
                Err(RecvTimeoutError::Disconnected) => return Err(format!("{method}: the browser has ended")),
            };
            if reply["id"] == id {
                return match &reply["error"] {
                    Value::Null => Ok(reply["result"].clone()),
                    error => Err(format!("{method}: {error}")),
                };
            }
            let event = reply["method"].as_str().unwrap_or_default();
            let is_error = match event {
                // Of the browser's own log; what the policy refuses is an error in it.
                "Log.entryAdded" => reply["params"]["entry"]["level"] == "error",
                "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" => true,
                _ => false,
            };
            if is_error {
                self.complaints.push(reply["params"].to_string());
            }
        }
    }

    /// Opens `address` in a window of this size, with reduced motion.
    pub fn open(&mut self, address: &str, (width, height): (u32, u32), dark: bool) -> Result<(), String> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }))?;
        // The same page with another fragment would not be loaded again.
        self.call("Page.navigate", json!({ "url": "about:blank" }))?;
        self.call("Page.navigate", json!({ "url": address })).map(drop)
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Result<Value, String> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params)?;
        match result.get("exceptionDetails") {
            None => Ok(result["result"]["value"].clone()),
            Some(details) => Err(format!("{expression}: {details}")),
        }
    }

    /// Presses a key: its name, its number, and the text that it enters.
    pub fn press(&mut self, key: &str, number: u32, text: Option<&str>) -> Result<(), String> {
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": number });
            if let Some(text) = text.filter(|_| kind == "keyDown") {
                params["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", params)?;
        }
        Ok(())
    }

    /// A picture of the whole page, as PNG.
    pub fn picture(&mut self) -> Result<Vec<u8>, String> {
        let result = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }))?;
        Ok(base64(result["data"].as_str().unwrap_or_default()))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let _ = self.call("Browser.close", json!({}));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes of a text in base 64 (RFC 4648, 4).
fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(value).collect();
    let of = |some: &[u8]| {
        let bits = some.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - some.len()));
        bits.to_be_bytes()[1..some.len()].to_vec()
    };
    digits.chunks(4).flat_map(of).collect()
}
