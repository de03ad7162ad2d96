//! The command line; see [`capstan::cli`].

fn main() -> std::process::ExitCode {
    capstan::cli::main()
}
