//! A handshake of the form of TLS 1.3 in QUIC (RFC 9001) without cryptography: both ends exchange transport parameters, and
//! keys change nothing.
//!
//! Messages have the size that they have with a chain of two certificates, because the server may send three times what it has
//! received before the client's address is validated (RFC 9000, section 8.1), and short transfers are mostly handshake. An
//! authentication tag takes its 16 bytes and is zero.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair,
    Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

/// The tag of AES-GCM and ChaCha20-Poly1305 (RFC 9001, section 5.3).
pub(crate) const TAG: usize = 16;

/// A message of the handshake, and its least size.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    ClientHello,
    ServerHello,
    /// EncryptedExtensions, Certificate, CertificateVerify and Finished.
    Server,
    /// The client's Finished.
    Client,
}

impl Message {
    const ALL: [Self; 4] = [Self::ClientHello, Self::ServerHello, Self::Server, Self::Client];

    const fn size(self) -> usize {
        match self {
            Self::ClientHello => 280,
            Self::ServerHello => 122,
            Self::Server => 2_300,
            Self::Client => 36,
        }
    }
}

/// Bytes before the contents of a message: its kind, its length, and how much of it is parameters.
const HEADER: usize = 5;

/// The next step of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// To send this message, after which keys change where the other side expects it.
    Send(Message),
    /// To change to the keys of the handshake (client).
    Upgrade,
    Receive(Message),
    Done,
}

/// One end of the handshake.
pub(crate) struct Null {
    side: Side,
    step: Step,
    /// The parameters of this end.
    own: Vec<u8>,
    /// The parameters of the peer, once they have been read.
    peer: Option<Vec<u8>>,
    /// Received bytes of an incomplete message.
    partial: Vec<u8>,
}

impl Null {
    fn new(side: Side, step: Step, params: &TransportParameters) -> Box<Self> {
        let mut own = Vec::new();
        params.write(&mut own);
        Box::new(Self { side, step, own, peer: None, partial: Vec::new() })
    }

    fn write(&self, message: Message, buf: &mut Vec<u8>) {
        let carries = matches!(message, Message::ClientHello | Message::Server);
        let body: &[u8] = if carries { &self.own } else { &[] };
        let length = body.len().max(message.size());
        let kind = Message::ALL.iter().position(|known| *known == message).unwrap_or_default();
        buf.push(kind as u8);
        buf.extend((length as u16).to_be_bytes());
        buf.extend((body.len() as u16).to_be_bytes());
        buf.extend(body);
        buf.resize(buf.len() + length - body.len(), 0);
    }

    /// Takes a complete message out of the received bytes.
    fn next_message(&mut self) -> Option<(Message, Vec<u8>)> {
        let header: [u8; HEADER] = *self.partial.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([header[1], header[2]]));
        let parameters = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let body = self.partial.get(HEADER..HEADER + length)?.get(..parameters)?.to_vec();
        let message = *Message::ALL.get(usize::from(header[0]))?;
        self.partial.drain(..HEADER + length);
        Some((message, body))
    }
}

impl Session for Null {
    fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
        keys()
    }
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }
    fn is_handshaking(&self) -> bool {
        match self.side {
            // The client has everything that it needs before it has sent its last message.
            Side::Client => !matches!(self.step, Step::Send(Message::Client) | Step::Done),
            Side::Server => self.step != Step::Done,
        }
    }
    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.partial.extend_from_slice(buf);
        while let Step::Receive(expected) = self.step {
            let Some((message, body)) = self.next_message() else { break };
            if message != expected {
                let code = TransportErrorCode::PROTOCOL_VIOLATION;
                return Err(TransportError { code, frame: None, reason: "a message out of order".into() });
            }
            self.step = match message {
                Message::ClientHello => Step::Send(Message::ServerHello),
                Message::ServerHello => Step::Upgrade,
                Message::Server => Step::Send(Message::Client),
                Message::Client => Step::Done,
            };
            if matches!(message, Message::ClientHello | Message::Server) {
                self.peer = Some(body);
            }
        }
        Ok(false)
    }
    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(peer) = &self.peer else { return Ok(None) };
        TransportParameters::read(self.side, &mut peer.as_slice()).map(Some).map_err(Into::into)
    }
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let (written, next) = match self.step {
            Step::Send(Message::ClientHello) => {
                self.write(Message::ClientHello, buf);
                self.step = Step::Receive(Message::ServerHello);
                return None;
            }
            Step::Upgrade => (None, Step::Receive(Message::Server)),
            Step::Send(Message::ServerHello) => (Some(Message::ServerHello), Step::Send(Message::Server)),
            Step::Send(Message::Server) => (Some(Message::Server), Step::Receive(Message::Client)),
            Step::Send(Message::Client) => (Some(Message::Client), Step::Done),
            Step::Receive(_) | Step::Done => return None,
        };
        if let Some(message) = written {
            self.write(message, buf);
        }
        self.step = next;
        Some(keys())
    }
    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(keys().packet)
    }
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }
    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// The sessions of clients and of servers.
pub(crate) struct Sessions;

impl ClientConfig for Sessions {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Null::new(Side::Client, Step::Send(Message::ClientHello), params))
    }
}

impl ServerConfig for Sessions {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }
    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; TAG] {
        [0; TAG]
    }
    fn start_session(self: Arc<Self>, _: u32, params: &TransportParameters) -> Box<dyn Session> {
        Null::new(Side::Server, Step::Receive(Message::ClientHello), params)
    }
}

/// A key of any kind: what it protects stays as it is.
pub(crate) struct NoKey;

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) },
        packet: KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) },
    }
}

impl HeaderKey for NoKey {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}
    fn encrypt(&self, _: usize, _: &mut [u8]) {}
    fn sample_size(&self) -> usize {
        16
    }
}

impl PacketKey for NoKey {
    fn encrypt(&self, _: u64, _: &mut [u8], _: usize) {}
    fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(length);
        Ok(())
    }
    fn tag_len(&self) -> usize {
        TAG
    }
    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }
    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HmacKey for NoKey {
    /// Not secret, but different for different data: connections are found by it.
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        // FNV-1a.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in data {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        for (number, place) in out.iter_mut().enumerate() {
            *place = hash.rotate_left(number as u32 * 8) as u8 | 1;
        }
    }
    fn signature_len(&self) -> usize {
        32
    }
    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = vec![0; signature.len()];
        self.sign(data, &mut expected);
        if expected == signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for NoKey {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for NoKey {
    fn seal(&self, data: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        data.resize(data.len() + TAG, 0);
        Ok(())
    }
    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let length = data.len().checked_sub(TAG).ok_or(CryptoError)?;
        Ok(&mut data[..length])
    }
}
