//! The roles of the program inside: it is this test program, as a client of the role that its environment names.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::running::PATIENCE;

pub fn pattern(at: usize) -> u8 {
    (at / 251 + at) as u8
}

pub fn whole(data: &[u8], length: usize) -> bool {
    data.len() == length && data.iter().enumerate().all(|(at, &byte)| byte == pattern(at))
}

pub fn play(role: &str) {
    let words: Vec<&str> = role.split(' ').collect();
    let address = || words[1].parse::<SocketAddr>().unwrap();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    match words[0] {
        // Prints the number of bytes, the seconds from the first to the last, and whether all are right.
        "download" => {
            let mut stream = TcpStream::connect(address()).unwrap();
            let (mut all, mut began) = (vec![0; 1], None);
            stream.read_exact(&mut all).unwrap();
            began.get_or_insert(Instant::now());
            stream.read_to_end(&mut all).unwrap();
            let right = u8::from(whole(&all, all.len()));
            println!("{} {} {right}", all.len(), began.unwrap().elapsed().as_secs_f64());
        }
        // Ends at once, with data still in flight.
        "upload" => {
            let data: Vec<u8> = (0..number(2) as usize).map(pattern).collect();
            TcpStream::connect(address()).unwrap().write_all(&data).unwrap();
        }
        "connect" => match TcpStream::connect_timeout(&address(), PATIENCE) {
            Ok(_) => println!("connected"),
            Err(error) => println!("{:?}", error.kind()),
        },
        // Requests datagrams and counts arrivals for the given time in ms.
        "receive" => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"go", address()).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let (began, mut bytes, mut buffer) = (Instant::now(), 0, [0; 65_536]);
            while began.elapsed() < Duration::from_millis(number(2)) {
                bytes += socket.recv(&mut buffer).unwrap_or(0);
            }
            println!("{bytes} {}", began.elapsed().as_secs_f64());
        }
        // Sends datagrams of 972 bytes at about 8 Mbit/s for the given time in ms.
        "flood" => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let began = Instant::now();
            let mut sent = 0;
            while began.elapsed() < Duration::from_millis(number(2)) {
                let _ = socket.send_to(&[7; 972], address());
                sent += 1;
                thread::sleep((began + Duration::from_millis(sent)).saturating_duration_since(Instant::now()));
            }
        }
        // Echoes with an echo server, one each 20 ms; prints the median and the 95th percentile in ms.
        "echo" => {
            let any = if address().is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut times = Vec::new();
            for number in 0..number(2) {
                let began = Instant::now();
                socket.send_to(&number.to_be_bytes(), address()).unwrap();
                let mut buffer = [0; 8];
                socket.recv(&mut buffer).unwrap();
                times.push(began.elapsed().as_secs_f64() * 1e3);
                thread::sleep(Duration::from_millis(20));
            }
            times.sort_by(f64::total_cmp);
            println!("{} {}", times[times.len() / 2], times[times.len() * 95 / 100]);
        }
        // The largest datagram, in both directions.
        "large" => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let data: Vec<u8> = (0..60_000).map(pattern).collect();
            socket.send_to(&data, address()).unwrap();
            let mut buffer = vec![0; 65_536];
            let length = socket.recv(&mut buffer).unwrap();
            println!("{}", whole(&buffer[..length], 60_000));
        }
        // Pings once, and prints the result.
        "ping" => {
            use rustix::net::{AddressFamily, SocketType, ipproto, socket};
            let socket = UdpSocket::from(socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP)).unwrap());
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.connect((words[1], 0)).unwrap();
            // Type 8, code 0; checksum and identifier are the kernel's; sequence 7; eight bytes of data.
            socket.send(&[8, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            let mut buffer = [0; 64];
            match socket.recv(&mut buffer) {
                Ok(length) => println!("type {} sequence {} data {:?}", buffer[0], buffer[7], &buffer[8..length]),
                Err(error) => println!("{:?}", error.kind()),
            }
        }
        "identity" => {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
            println!("{}\n{}\n{}", line("Uid:"), line("Gid:"), std::env::current_dir().unwrap().display());
        }
        // A server of its own on 127.0.0.1, and whether it can be reached.
        "own" => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = listener.local_addr().unwrap();
            println!("{}", TcpStream::connect_timeout(&at, PATIENCE).is_ok());
        }
        role => panic!("no such role: {role}"),
    }
}
