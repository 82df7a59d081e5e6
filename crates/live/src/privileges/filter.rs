//! The filter of system calls, as a program of the kernel's classic BPF.
//!
//! It never kills: a refused call fails with `EPERM` and has no effect, while a killed process would end shaping. Calls of
//! another architecture, whose numbers differ, are refused as a whole. `clone3`, whose flags are in memory that a filter
//! cannot read, fails as if the kernel did not have it, and the C library takes `clone`.
//!
//! *Cost*: since Linux 5.11 the kernel remembers the calls that are permitted whatever their arguments, and does not run
//! the program for them.

use std::io;

use libc::{c_long, sock_filter};
use tidegate_sys::process::Scope;

/// The system calls that a process keeps.
#[derive(Clone, Copy, Debug)]
pub enum Calls<'a> {
    /// Those of a program of the user space, and of the programs that it runs: no mounts, namespaces, modules, tracing of
    /// other processes, BPF, clocks, keys or ports; sockets of the local, netlink and IP families only.
    Program,
    /// As [`Program`](Self::Program), and `bpf`.
    Loader,
    /// Those that read files and directories, and use streams that are open already; no file is opened for writing.
    ReadFiles,
    /// Only these.
    Only(&'a [c_long]),
}

/// The calls that no program of the user space needs.
const DENIED: &[c_long] = &[
    // File systems and namespaces. `clone` is examined below.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    // The kernel and the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    // Other processes and their memory.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_memfd_secret,
    // Large parts of the kernel that are open to attack.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// System calls that are denied and that only this architecture has.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[c_long] = &[];

/// The families of sockets that are left.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Flags of `clone` that make a namespace: mount, control group, UTS, IPC, user, process, network.
const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// Flags of `openat` that write, or make a file.
const WRITES: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

/// The calls of [`Calls::ReadFiles`].
const READ_FILES: &[c_long] = &[
    libc::SYS_close,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_getdents64,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Requests of `ioctl` that type into a terminal, which a command started by hand shares with its user's shell.
const TYPES: [u32; 2] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// The number of the architecture, of `include/uapi/linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00f3);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const ARCHITECTURE: Option<u32> = None;

/// Offsets in `struct seccomp_data`; of an argument, its lower half on a little-endian machine.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const DENY: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const MISSING: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// A program under construction.
#[derive(Default)]
struct Program(Vec<sock_filter>);

impl Program {
    fn load(&mut self, offset: u32) {
        self.0.push(sock_filter { code: LOAD, jt: 0, jf: 0, k: offset });
    }
    fn end(&mut self, with: u32) {
        self.0.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: with });
    }
    /// Ends with `with` if the loaded value compares so.
    fn end_if(&mut self, compare: u16, value: u32, with: u32) {
        self.0.push(sock_filter { code: compare, jt: 0, jf: 1, k: value });
        self.end(with);
    }
    /// Examines an argument of `call`: `examine` must end the program. Continues for other calls, with the number loaded.
    fn for_call(&mut self, call: c_long, argument_number: u32, examine: impl FnOnce(&mut Self)) {
        let mut part = Self::default();
        part.load(argument(argument_number));
        examine(&mut part);
        let skip = u8::try_from(part.0.len()).expect("a part has few instructions");
        self.0.push(sock_filter { code: EQUAL, jt: 0, jf: skip, k: call as u32 });
        self.0.extend(part.0);
    }
}

/// The program for `calls`, on this architecture.
fn program(calls: &Calls<'_>, architecture: u32) -> Vec<sock_filter> {
    let mut program = Program::default();
    program.load(ARCH);
    program.0.push(sock_filter { code: EQUAL, jt: 1, jf: 0, k: architecture });
    program.end(DENY);
    program.load(NUMBER);
    // Calls of x32, which have the same architecture.
    #[cfg(target_arch = "x86_64")]
    program.end_if(ANY_BIT, 0x4000_0000, DENY);
    match calls {
        Calls::ReadFiles => {
            program.for_call(libc::SYS_openat, 2, |part| {
                part.end_if(ANY_BIT, WRITES, DENY);
                part.end(ALLOW);
            });
            READ_FILES.iter().for_each(|call| program.end_if(EQUAL, *call as u32, ALLOW));
            program.end(DENY);
        }
        Calls::Only(allowed) => {
            allowed.iter().for_each(|call| program.end_if(EQUAL, *call as u32, ALLOW));
            program.end(DENY);
        }
        Calls::Program | Calls::Loader => {
            let may_load = matches!(calls, Calls::Loader);
            for call in DENIED.iter().chain(DENIED_HERE).filter(|call| !may_load || **call != libc::SYS_bpf) {
                program.end_if(EQUAL, *call as u32, DENY);
            }
            program.end_if(EQUAL, libc::SYS_clone3 as u32, MISSING);
            program.for_call(libc::SYS_clone, 0, |part| {
                part.end_if(ANY_BIT, NEW_NAMESPACES, DENY);
                part.end(ALLOW);
            });
            program.for_call(libc::SYS_socket, 0, |part| {
                FAMILIES.iter().for_each(|family| part.end_if(EQUAL, *family as u32, ALLOW));
                part.end(DENY);
            });
            program.for_call(libc::SYS_ioctl, 1, |part| {
                TYPES.iter().for_each(|request| part.end_if(EQUAL, *request, DENY));
                part.end(ALLOW);
            });
            program.end(ALLOW);
        }
    }
    program.0
}

/// Filters the calls of the threads in `scope`, which takes `no_new_privs` or `CAP_SYS_ADMIN`.
pub(super) fn install(calls: &Calls<'_>, scope: Scope) -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE.filter(|_| cfg!(target_endian = "little")) else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "there is no filter for this architecture"));
    };
    tidegate_sys::process::filter_calls(&program(calls, architecture), scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u32 = 0xc000_003e;

    /// Runs a program as the kernel does.
    fn run<const N: usize>(program: &[sock_filter], arch: u32, number: c_long, arguments: [u64; N]) -> u32 {
        let mut data = [0; 64];
        data[..4].copy_from_slice(&(number as u32).to_le_bytes());
        data[4..8].copy_from_slice(&arch.to_le_bytes());
        for (n, argument) in arguments.iter().enumerate() {
            data[16 + 8 * n..24 + 8 * n].copy_from_slice(&argument.to_le_bytes());
        }
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program[at];
            let jump = |yes: bool| at + 1 + usize::from(if yes { step.jt } else { step.jf });
            at = match step.code {
                LOAD => {
                    let from = step.k as usize;
                    loaded = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                    at + 1
                }
                EQUAL => jump(loaded == step.k),
                ANY_BIT => jump(loaded & step.k != 0),
                RETURN => return step.k,
                code => panic!("instruction {code}"),
            };
        }
    }

    #[test]
    fn a_program_keeps_what_it_needs_and_nothing_dangerous() {
        let program = program(&Calls::Program, HERE);
        let on = |number, arguments| run(&program, HERE, number, arguments);
        for call in [libc::SYS_read, libc::SYS_sendmsg, libc::SYS_execve, libc::SYS_futex, libc::SYS_mmap, 9_999] {
            assert_eq!(on(call, [0, 0]), ALLOW, "{call}");
        }
        for call in DENIED.iter().chain(DENIED_HERE) {
            assert_eq!(on(*call, [0, 0]), DENY, "{call}");
        }
        assert_eq!(on(libc::SYS_clone3, [0, 0]), MISSING);
        assert_eq!(on(libc::SYS_clone, [libc::CLONE_VM as u64 | libc::CLONE_THREAD as u64, 0]), ALLOW);
        assert_eq!(on(libc::SYS_clone, [libc::CLONE_NEWUSER as u64, 0]), DENY);
        for (family, expected) in [(libc::AF_INET6, ALLOW), (libc::AF_NETLINK, ALLOW), (libc::AF_VSOCK, DENY)] {
            assert_eq!(on(libc::SYS_socket, [family as u64, 0]), expected, "{family}");
        }
        assert_eq!(on(libc::SYS_ioctl, [0, libc::TIOCGWINSZ]), ALLOW);
        // The upper half of a request is ignored by the kernel, too.
        assert_eq!(on(libc::SYS_ioctl, [0, libc::TIOCSTI | 1 << 32]), DENY);
    }

    #[test]
    fn a_loader_keeps_bpf_and_is_a_program_otherwise() {
        let [loader, other] = [Calls::Loader, Calls::Program].map(|calls| program(&calls, HERE));
        assert_eq!(run(&loader, HERE, libc::SYS_bpf, [0; 2]), ALLOW);
        for call in (0..500).filter(|call| *call != libc::SYS_bpf) {
            assert_eq!(run(&loader, HERE, call, [0; 2]), run(&other, HERE, call, [0; 2]), "{call}");
        }
    }

    #[test]
    fn another_architecture_and_what_is_not_listed_are_refused() {
        for calls in [Calls::Program, Calls::Only(&[libc::SYS_read])] {
            let program = program(&calls, HERE);
            assert_eq!(run(&program, HERE, libc::SYS_read, [0, 0]), ALLOW);
            assert_eq!(run(&program, 0x4000_0003, libc::SYS_read, [0, 0]), DENY);
            #[cfg(target_arch = "x86_64")]
            assert_eq!(run(&program, HERE, libc::SYS_read | 0x4000_0000, [0, 0]), DENY);
        }
        let program = program(&Calls::Only(&[libc::SYS_read, libc::SYS_write]), HERE);
        assert_eq!(run(&program, HERE, libc::SYS_write, [0, 0]), ALLOW);
        assert_eq!(run(&program, HERE, libc::SYS_openat, [0, 0]), DENY);
    }

    #[test]
    fn reading_files_opens_none_for_writing() {
        let program = program(&Calls::ReadFiles, HERE);
        let opened = |flags: i32| run(&program, HERE, libc::SYS_openat, [0, 0, flags as u64]);
        assert_eq!(opened(libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY), ALLOW);
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC, libc::O_CREAT, libc::O_TMPFILE] {
            assert_eq!(opened(flags | libc::O_CLOEXEC), DENY, "{flags:o}");
        }
        assert_eq!(run(&program, HERE, libc::SYS_read, [0; 3]), ALLOW);
        for call in [libc::SYS_socket, libc::SYS_execve, libc::SYS_openat2, libc::SYS_ptrace, libc::SYS_kill] {
            assert_eq!(run(&program, HERE, call, [0; 3]), DENY, "{call}");
        }
    }
}
