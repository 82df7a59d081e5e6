//! The proof that shaping is in force, as far as it does not depend on the backend.

use std::path::Path;

use super::Shaping;
use super::error::{StartError, Unproven};
use super::interfaces::Proof;
use super::running::Running;
use crate::probe::{Inspection, Version};
use crate::rtnl::sysctl;
use crate::rules::Direction;

pub(super) const VERSIONS: [Version; 2] = [Version::V4, Version::V6];

/// Whether the interface carries the protocol, according to the kernel's settings.
///
/// # Errors
/// Why not: the kernel keeps no settings of a protocol for an interface that cannot carry it, and IPv6 can be switched off.
pub(super) fn is_carried(interface: &str, version: Version) -> Result<(), String> {
    let family = match version {
        Version::V4 => "ipv4",
        Version::V6 => "ipv6",
    };
    let settings = Path::new("/proc/sys/net");
    // Where not even the settings of IPv4 are to be seen, nothing is known.
    if settings.join("ipv4").exists() && !settings.join(family).join("conf").join(interface).exists() {
        return Err(format!("the kernel has no {version} there"));
    }
    match sysctl::read(&format!("ipv6/conf/{interface}/disable_ipv6")) {
        Ok(value) if version == Version::V6 && value != "0" => {
            Err(format!("net.ipv6.conf.{interface}.disable_ipv6 is {value}"))
        }
        _ => Ok(()),
    }
}

/// Takes packets that have left as the proof. A protocol without such a packet is awaited.
///
/// # Errors
/// [`StartError::Unproven`] when `inspection` has found a difference.
pub(super) fn prove_by_traffic(running: &mut Running, inspection: &Inspection) -> Result<(), StartError> {
    if !inspection.differences.is_empty() {
        let failures = inspection.differences.iter().map(|it| Unproven::Rule(it.to_string())).collect();
        return Err(StartError::Unproven { interface: running.names(), failures });
    }
    let class = running.class_names.first().cloned().unwrap_or_default();
    let passed = match running.direction {
        Direction::Egress => "left",
        Direction::Ingress => "arrived",
    };
    for interface in &mut running.interfaces {
        let mut proof = Proof::default();
        let mut came = Vec::new();
        for version in VERSIONS {
            match is_carried(interface.name(), version) {
                Err(why) => proof.not_carried.push((version, why)),
                Ok(()) if interface.has_received(version) => came.push(version),
                Ok(()) => proof.awaited.push((version, format!("no packet has {passed} since"))),
            }
        }
        if !came.is_empty() {
            proof.proven.push((class.clone(), came));
        }
        interface.proof = proof;
    }
    Ok(())
}

impl Shaping {
    /// Tries to prove what could not be proven yet. Call it often: it does nothing once everything is proven.
    /// Returns the interfaces and protocols for which a packet has come through since the last call.
    ///
    /// # Errors
    /// [`StartError::Unproven`] when a probe went out and did not come through; it is tried again all the same.
    pub fn prove_again(&mut self) -> Result<Vec<(String, Version)>, StartError> {
        let mut proven = Vec::new();
        if self.running.interfaces.iter().all(|interface| interface.proof.awaited.is_empty()) {
            return Ok(proven);
        }
        for interface in &mut self.running.interfaces {
            for at in (0..interface.proof.awaited.len()).rev() {
                if interface.has_received(interface.proof.awaited[at].0) {
                    proven.push((interface.name().to_owned(), interface.proof.awaited.remove(at).0));
                }
            }
        }
        if !proven.is_empty() {
            return Ok(proven);
        }
        self.backend.prove_again(&mut self.running)
    }
}
