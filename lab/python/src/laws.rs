//! Tests a discipline in Python against the six laws.

use pyo3::prelude::*;
use tidegate_core::{AnyQdisc, Instant, Span};
use tidegate_laws::{CodePoints, Op, Shape, TestPacket, check};

use crate::failure;
use crate::qdisc::PythonQdisc;
use crate::watch;

/// The law that was violated, the shortest script that shows the violation, and its seed.
type Violation = (String, Vec<String>, u64);

/// The number of steps of a script.
const STEPS: usize = 400;

/// Runs random scripts with `operations` steps in total on the objects that `make` returns. Each script runs three
/// times. Returns the coverage (steps, packets enqueued, dequeued and dropped, and deadlines verified) and, if a law
/// was violated, the law, the shortest script and its seed.
#[pyfunction]
#[pyo3(signature = (make, operations, seed, flows, classes, ecn_of_flows))]
pub fn check_laws(
    py: Python<'_>,
    make: Py<PyAny>,
    operations: u64,
    seed: u64,
    flows: u64,
    classes: u32,
    ecn_of_flows: bool,
) -> PyResult<(Option<[u64; 5]>, Option<Violation>)> {
    let ecn = if ecn_of_flows { CodePoints::OfFlows } else { CodePoints::OfPackets };
    let shape = Shape { flows: flows.max(1), classes: classes.max(1), ecn, ..Shape::default() };
    failure::guarded(py, move || {
        let fresh = || {
            let qdisc = Python::attach(|py| PythonQdisc::new(&make.bind(py).call0()?, Instant::ZERO, 1));
            match qdisc {
                Ok(qdisc) => AnyQdisc::<TestPacket>::new(Box::new(qdisc)),
                Err(error) => failure::unwind(error),
            }
        };
        let mut sum = [0; 5];
        for number in 0..operations.div_ceil(STEPS as u64) {
            watch::signals()?;
            let seed = seed.wrapping_add(number);
            match check(fresh, &shape, seed, STEPS) {
                Ok(found) => {
                    let found = [found.steps, found.enqueued, found.dequeued, found.dropped, found.deadlines];
                    sum.iter_mut().zip(found).for_each(|(sum, part)| *sum += part);
                }
                Err(violation) => {
                    let script = violation.script.iter().map(line).collect();
                    return Ok((None, Some((violation.what.clone(), script, seed))));
                }
            }
        }
        Ok((Some(sum), None))
    })
}

/// Formats a step as a line.
fn line(op: &Op) -> String {
    let time = |span: &Span| span.to_string();
    match op {
        Op::Enqueue(packet) => {
            format!("enqueue {} B of flow {} (class {})", packet.size.as_u64(), packet.flow.flow, packet.class.0)
        }
        Op::Dequeue => "dequeue".into(),
        Op::ToDeadline => "dequeue 1 ns before the deadline, and at it".into(),
        Op::Wait(span) => format!("wait {}", time(span)),
        Op::Back(span) => format!("make the next call {} in the past", time(span)),
    }
}
