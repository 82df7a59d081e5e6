//! The data paths of Tidegate: how packets of a real interface reach a discipline and how its decisions reach them.
//!
//! This is the only library of the project that needs privileges. It communicates with the kernel over netlink sockets,
//! and starts no other program: neither `nft` nor `iptables` nor `ip` needs to be
//! installed, and everything works inside an unprivileged user namespace as it does for root.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`netlink`] | messages, attributes, sockets, acknowledgements |
//! | [`nfqueue`] | packets out of the kernel and verdicts back into it, in batches |
//! | [`marks`] | which bits of the firewall mark carry tags and actions |
//! | [`nft`] | nf_tables: tables, chains and rules as values |
//! | [`nflog`] | copies of packets of a port, beside their way |
//! | [`leases`] | the names of hosts in leases and `/etc/hosts` |
//! | [`rules`] | the rules that lead an interface through a queue, verified and removed |
//! | [`rtnl`] | links, addresses, routes, and notice of their changes |
//! | [`netns`] | temporary network namespaces, as root and without |
//! | [`guardian`] | the process that lets packets pass when the shaper cannot |
//! | [`tun`] | interfaces whose other end is this process |
//! | [`timing`] | the clock, and waiting for a packet or an instant |
//! | [`bypass`] | what carries packets of an interface past its rules |
//! | [`uplink`] | the interfaces of the default routes, and what they are stacked on |
//! | [`doctor`] | what on this machine would keep shaping from working |
//! | [`probe`] | proof that shaping is in force |

#![cfg(target_os = "linux")]

pub mod bypass;
pub mod doctor;
pub mod guardian;
pub mod leases;
pub mod marks;
pub mod netlink;
pub mod netns;
pub mod nflog;
pub mod nfqueue;
pub mod nft;
pub mod peers;
pub mod privileges;
pub mod probe;
pub mod rtnl;
pub mod rules;
pub mod shaping;
pub mod timing;
pub mod tun;
pub mod uplink;
