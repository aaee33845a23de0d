//! One run from start to end. The world comes in as a [`Process`] and goes out as an [`Outcome`].

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use tokio::time::Instant;

use crate::args::{self, Args};
use crate::command::{Command, Request, Success, carry_out};
use crate::config::{self, Config};
use crate::error::{Error, Report};
use crate::log::{Facts, Level, Log};
use crate::request_id;
use crate::result::{Version, json, versions};

/// Largest network configuration that is read, in bytes. Real ones, `prevResult` included, have a few KiB.
pub const STDIN_MAX: u64 = 1 << 20;

/// How long a run may take, counted from the start of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// For the verbs that change or read an allocation.
    pub request: Duration,
    /// For STATUS.
    pub status: Duration,
}

impl Budget {
    /// 100 s (seed, "Timeout budget": the CNI plugin's call to the agent), connecting included, for ADD and,
    /// as in the reference, for every other request. STATUS is asked every few seconds to learn whether the
    /// node is ready; 5 s without an answer is an answer.
    pub const DEFAULT: Self = Self {
        request: Duration::from_secs(100),
        status: Duration::from_secs(5),
    };

    fn of(self, command: Command) -> Duration {
        if command == Command::Status {
            self.status
        } else {
            self.request
        }
    }
}

/// Looks an environment variable up.
pub type Variables = Box<dyn Fn(&str) -> Option<OsString>>;

/// Everything that a run takes from outside.
pub struct Process {
    /// Looks an environment variable up.
    pub env: Variables,
    /// The network configuration. Not touched by VERSION.
    pub stdin: Box<dyn Read + Send>,
    /// When the process started.
    pub start: Instant,
    /// [`Budget::DEFAULT`], except in tests.
    pub budget: Budget,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Process {
    /// Environment and standard input of this process.
    pub fn of_this_process(start: Instant) -> Self {
        Self {
            env: Box::new(|name| std::env::var_os(name)),
            stdin: Box::new(std::io::stdin()),
            start,
            budget: Budget::DEFAULT,
        }
    }
}

/// Everything that a run gives back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// One JSON object, or nothing.
    pub stdout: String,
    /// For standard error, one line each.
    pub warnings: Vec<String>,
    /// False: `stdout` is an error of the CNI specification.
    pub success: bool,
}

impl Outcome {
    /// The only place that prints.
    pub fn print(&self) -> ExitCode {
        for warning in &self.warnings {
            eprintln!("orbweaver-cni: {warning}");
        }
        let mut stdout = std::io::stdout().lock();
        let end = if self.stdout.is_empty() { "" } else { "\n" };
        let written = write!(stdout, "{}{end}", self.stdout).and_then(|()| stdout.flush());
        // A runtime that got no result must not take the run for a success.
        if self.success && written.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// Makes a bug in this program a CNI error: a runtime that sees an empty answer cannot tell what happened.
pub fn answer_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or("an unknown place".to_owned(), ToString::to_string);
        let report = json(&Report::of_a_panic(&place));
        Outcome {
            stdout: report,
            warnings: vec![panic.to_string()],
            success: false,
        }
        .print();
        std::process::exit(1);
    }));
}

/// What is known so far, for the answer to a failure and for the log.
#[derive(Default)]
struct Progress {
    command: Option<Command>,
    version: Option<Version>,
    request_id: String,
    log: Option<Log>,
    warnings: Vec<String>,
}

/// Does what `CNI_COMMAND` says.
pub fn run(process: Process) -> Outcome {
    let start = process.start;
    let mut progress = Progress::default();
    let ended = steps(process, &mut progress);
    let duration = Some(start.elapsed());
    match ended {
        Ok(success) => {
            progress.log(level_of_success(progress.command), &success.summary, duration);
            Outcome {
                stdout: success.answer,
                warnings: progress.warnings,
                success: true,
            }
        }
        Err(error) => {
            let report = Report::new(&error, progress.version, progress.command, &progress.request_id);
            progress.log(Level::Error, &report.for_the_log(), duration);
            Outcome {
                stdout: json(&report),
                warnings: progress.warnings,
                success: false,
            }
        }
    }
}

/// STATUS comes every few seconds for ever; that all is well needs no line.
fn level_of_success(command: Option<Command>) -> Level {
    if command == Some(Command::Status) {
        Level::Debug
    } else {
        Level::Info
    }
}

fn steps(process: Process, progress: &mut Progress) -> Result<Success, Error> {
    let command = args::command(&*process.env)?;
    progress.command = Some(command);
    // Runtimes ask this for every network of every pod: no configuration, no log, no runtime.
    if command == Command::Version {
        return Ok(Success {
            answer: versions(),
            ..Success::default()
        });
    }
    let budget = process.budget.of(command);
    let deadline = process.start + budget;
    progress.request_id = request_id::generate();
    let network = config::decode(&read(process.stdin, deadline)?)?;
    let version = config::version(&network, command)?;
    progress.version = Some(version);
    let args = Args::read(command, &*process.env)?;
    let config = Config::read(network, version, command)?;
    progress.open_log(command, &args, &config);
    let id = progress.request_id.clone();
    let request = Request {
        command,
        args,
        config,
        id,
        deadline,
        budget,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(Error::Resources)?;
    runtime.block_on(carry_out(&request))
}

/// Reads on another thread, because a pipe that nobody closes cannot be given a deadline.
fn read(stdin: Box<dyn Read + Send>, deadline: Instant) -> Result<Vec<u8>, Error> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let reader = std::thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        let read = stdin.take(STDIN_MAX + 1).read_to_end(&mut bytes).map(|_| bytes);
        // The receiver is gone only when the deadline has passed, and the process with it.
        sender.send(read).ok();
    });
    reader.map_err(Error::Resources)?;
    match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(bytes)) if bytes.len() as u64 > STDIN_MAX => {
            Err(Error::Decode(format!("is larger than {STDIN_MAX} bytes")))
        }
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(Error::Stdin(error.to_string())),
        Err(_) => Err(Error::Stdin("it was not closed in time".to_owned())),
    }
}

impl Progress {
    fn open_log(&mut self, command: Command, args: &Args, config: &Config) {
        let pod = match (args.pod.namespace.as_str(), args.pod.name.as_str()) {
            ("", "") => String::new(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        let facts = Facts {
            command: command.name(),
            container: args.container_id.clone(),
            nic: args.nic.clone(),
            pod,
            request_id: self.request_id.clone(),
        };
        match Log::open(&config.log, facts) {
            Ok(log) => self.log = Some(log),
            Err(error) => {
                let path = config.log.path.display();
                self.warnings
                    .push(format!("continuing without the log file {path}: {error}"));
            }
        }
        if !config.unknown.is_empty() {
            let keys = config.unknown.join(", ");
            self.log(
                Level::Warn,
                &format!("the ipam section has unknown keys, which are ignored: {keys}"),
                None,
            );
        }
        self.log(
            Level::Debug,
            &format!("asking the agent at {}", config.socket.display()),
            None,
        );
    }

    fn log(&mut self, level: Level, message: &str, duration: Option<Duration>) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = log.write(level, message, duration) {
            self.warnings
                .push(format!("continuing without the log file: {error}"));
            self.log = None;
        }
    }
}
