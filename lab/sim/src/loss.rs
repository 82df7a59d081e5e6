//! Loss models of lines.
//!
//! *Source*: E. N. Gilbert, "Capacity of a burst-noise channel", 1960, and E. O. Elliott, 1963, for [`Loss::Bursts`].

use tidegate_core::random::Stream;

use crate::packet::SimPacket;

/// The loss model of a line. It applies after transmission, so that a lost packet has taken its time on the
/// transmitter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Loss {
    /// No packet is lost.
    None,
    /// Each packet is lost with this probability.
    Random(f64),
    /// Each packet with data is lost with this probability; pure acknowledgements are never lost.
    RandomData(f64),
    /// Bursts (Gilbert and Elliott): two states, each with a probability of loss.
    Bursts {
        /// The probability, at each packet, that a good line becomes bad.
        begin: f64,
        /// The probability, at each packet, that a bad line becomes good: the mean burst is its reciprocal.
        end: f64,
        /// The probability that a packet is lost in the good state, and in the bad one.
        losses: [f64; 2],
    },
    /// The packets with these numbers are lost, at most eight. Packets with data are counted from 0; `u64::MAX` marks
    /// an unused entry.
    Numbers([u64; 8]),
}

/// The loss model of a line with the state of its random process.
pub(crate) struct LossState {
    loss: Loss,
    bad: bool,
    data_packets: u64,
    random: Stream,
}

impl LossState {
    pub fn new(loss: Loss, random: Stream) -> Self {
        Self { loss, bad: false, data_packets: 0, random }
    }

    /// Replaces the loss model from now on.
    pub fn set(&mut self, loss: Loss) {
        self.loss = loss;
    }

    /// Whether the line loses `packet`, the next that is transmitted.
    pub fn loses(&mut self, packet: &SimPacket) -> bool {
        let data = packet.payload() > 0;
        let number = self.data_packets;
        self.data_packets += u64::from(data);
        match self.loss {
            Loss::None => false,
            Loss::Random(p) => self.random.unit() < p,
            Loss::RandomData(p) => data && self.random.unit() < p,
            Loss::Bursts { begin, end, losses } => {
                let turn = if self.bad { end } else { begin };
                if self.random.unit() < turn {
                    self.bad = !self.bad;
                }
                match losses[usize::from(self.bad)] {
                    0.0 => false,
                    1.0 => true,
                    p => self.random.unit() < p,
                }
            }
            Loss::Numbers(numbers) => data && numbers.contains(&number),
        }
    }
}
