//! The command `tidegate`.

fn main() -> std::process::ExitCode {
    tidegate::main()
}
