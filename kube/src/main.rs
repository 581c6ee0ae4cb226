//! `teleport-kube-update`: from arguments to an exit status.

use std::process::ExitCode;

use clap::Parser;
use error::{Code, Error, Result};
use teleport_kube_update::api::Api;
use teleport_kube_update::cli::{KubeArgs, KubeCommand};
use teleport_kube_update::state::WishKind;
use teleport_kube_update::{commands, plan_command, run};

fn main() -> ExitCode {
    // The binary has one library for TLS; which one is said once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = KubeArgs::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let told = match runtime {
        Ok(runtime) => {
            let told = runtime.block_on(command(cli));
            // A question that nobody waits for any more does not keep the process.
            runtime.shutdown_background();
            told
        }
        Err(error) => Err(Error::new(Code::Io, format!("cannot start: {error}"))),
    };
    match told {
        Ok(text) => match std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("error: {error}\n").as_bytes());
            ExitCode::from(error.exit_status())
        }
    }
}

async fn command(cli: KubeArgs) -> Result<String> {
    let KubeArgs { global, command } = cli;
    if let KubeCommand::Version = command {
        return Ok(concat!("teleport-kube-update ", env!("CARGO_PKG_VERSION"), "\n").to_owned());
    }
    // What is wrong with the configuration is said before the API server is looked for.
    if !matches!(command, KubeCommand::Run { .. }) || global.agent.is_some() {
        run::config(&global)?;
    }
    let unusable = |what| Error::new(Code::ConfigInvalid, what);
    let api =
        Api::new(global.kubeconfig.as_deref(), global.namespace.as_deref(), &global.name).await.map_err(unusable)?;
    match command {
        KubeCommand::Run { listen } => run::run(api, global, listen).await.map(|()| String::new()),
        KubeCommand::Status { format } => commands::status(&api, &global, format).await,
        KubeCommand::Plan { format } => plan_command::plan(&api, &global, format).await,
        KubeCommand::Update { which, .. } => commands::wish(&api, &global, which, WishKind::Update).await,
        KubeCommand::Rollback(which) => commands::wish(&api, &global, which, WishKind::Rollback).await,
        KubeCommand::Hold(which) => commands::hold(&api, &global, which, true).await,
        KubeCommand::Release(which) => commands::hold(&api, &global, which, false).await,
        KubeCommand::Version => Ok(String::new()),
    }
}
