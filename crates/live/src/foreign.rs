//! Functions that another compiler has made, called by the address of their code: of a library, or compiled at run time.
//!
//! *Law*: the code runs on the thread that calls [`Function::call`], with the C calling convention of the platform, and not
//! after the last copy of the `Function` is dropped.
//! *Units*: those of the caller; five unsigned integers of 64 bits go in, a float of 64 bits comes out.
//! *Cost*: an indirect call; [`is_executable`] reads the mappings of the process, some 0.1 ms.
//! *Notes*: nothing at an address shows its signature. The caller guarantees what [`Function::at`] lists; a program that
//! passes on an address of a user makes the user responsible, as `dlsym` and the module `ctypes` of Python do.

use std::io;
use std::num::NonZeroUsize;

/// A function of five integers at an address, `double f(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t)` in C.
///
/// ```
/// use tidegate_live::foreign::Function;
/// extern "C" fn sum(a: u64, b: u64, c: u64, d: u64, e: u64) -> f64 {
///     (a + b + c + d + e) as f64
/// }
/// let address = std::num::NonZeroUsize::new(sum as *const () as usize).unwrap();
/// assert_eq!(Function::at(address).call([1, 2, 3, 4, 5]), 15.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Function(extern "C" fn(u64, u64, u64, u64, u64) -> f64);

impl Function {
    /// The function whose code begins at `address`.
    ///
    /// The caller guarantees that the code has this signature and the C calling convention; that it stays where it is while
    /// a copy of the result exists; that several threads may run it at the same time; and that it returns, without unwinding
    /// into its caller.
    pub fn at(address: NonZeroUsize) -> Self {
        let code = std::ptr::with_exposed_provenance::<()>(address.get());
        // SAFETY: both are pointers, of one size, and this one is not null. That code of this signature is there for as long
        // as the result exists is what the caller guarantees.
        Self(unsafe { std::mem::transmute::<*const (), extern "C" fn(u64, u64, u64, u64, u64) -> f64>(code) })
    }

    /// Calls it.
    #[inline]
    pub fn call(self, [a, b, c, d, e]: [u64; 5]) -> f64 {
        (self.0)(a, b, c, d, e)
    }
}

/// Whether memory of this process at `address` may be executed. Of an address that somebody wrote down this excludes
/// what is certainly no function.
///
/// # Errors
/// When `/proc/self/maps` cannot be read.
pub fn is_executable(address: usize) -> io::Result<bool> {
    let maps = std::fs::read("/proc/self/maps")?;
    Ok(String::from_utf8_lossy(&maps).lines().any(|line| maps_code(line, address) == Some(true)))
}

/// Whether a line of proc_pid_maps(5) is a mapping of code that contains `address`.
fn maps_code(line: &str, address: usize) -> Option<bool> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let bound = |text| usize::from_str_radix(text, 16).ok();
    Some((bound(begin)?..bound(end)?).contains(&address) && rest.as_bytes().get(2) == Some(&b'x'))
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn digits(a: u64, b: u64, c: u64, d: u64, e: u64) -> f64 {
        [a, b, c, d, e].iter().fold(0.0, |number, digit| number * 10.0 + *digit as f64)
    }

    #[test]
    fn arguments_arrive_in_their_order() {
        let address = NonZeroUsize::new(digits as *const () as usize).expect("code is not at 0");
        let function = Function::at(address);
        assert_eq!(function.call([1, 2, 3, 4, 5]), 12_345.0);
        let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(move || function.call([0, 0, 0, n, 0]))).collect();
        let found: Vec<f64> = threads.into_iter().map(|thread| thread.join().expect("it returns")).collect();
        assert_eq!(found, [0.0, 10.0, 20.0, 30.0]);
    }

    #[test]
    fn data_is_not_code() {
        let on_the_heap = Box::new(0_u64);
        let data = [0, 1, usize::MAX, &raw const *on_the_heap as usize];
        assert!(is_executable(digits as *const () as usize).expect("the mappings are readable"));
        for address in data {
            assert!(!is_executable(address).expect("the mappings are readable"), "{address:#x}");
        }
    }

    #[test]
    fn a_mapping_excludes_its_end() {
        let line = "7f00-8000 r-xp 00000000 fe:00 1234   /usr/lib/a library.so";
        assert_eq!(
            [0x7eff, 0x7f00, 0x7fff, 0x8000].map(|at| maps_code(line, at) == Some(true)),
            [false, true, true, false]
        );
        assert_eq!(maps_code("7f00-8000 rw-p 00000000 00:00 0", 0x7f00), Some(false));
        assert_eq!(maps_code("", 0), None);
    }
}
