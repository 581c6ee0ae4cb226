//! TLS by files that may be replaced at any time.

mod pair;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::time::{MissedTickBehavior, interval};

use pair::Stamp;

/// How often the files are looked at; a change is taken when two looks agree, so 2 to 4 s after it.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A certificate and its key, read again when the files change. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Arc<TlsFiles>);

#[derive(Debug)]
struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// The files as they were when they were last taken or refused.
    judged: Stamp,
    /// The files as they were at the last look, if not yet judged.
    pending: Option<Stamp>,
}

impl Tls {
    /// Reads the certificate chain `cert` (leaf first) and its key `key`, both PEM; the key is RSA, ECDSA or Ed25519 in
    /// PKCS#8, PKCS#1 or SEC1. TLS 1.2 and 1.3, ALPN `http/1.1`, resumption by tickets.
    ///
    /// # Errors
    /// If a file cannot be read or understood, or they do not belong together.
    pub(crate) fn load(cert: &Path, key: &Path) -> Result<Self, String> {
        let (config, judged) = pair::load(cert, key)?;
        let current = Mutex::new(Current { config, judged, pending: None });
        Ok(Self(Arc::new(TlsFiles { cert: cert.to_owned(), key: key.to_owned(), current })))
    }

    /// Reads the files at once (on SIGHUP). Connections that exist keep what they began with. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Tls::load`]; the certificate and key in use stay.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let (config, judged) = pair::load(&self.0.cert, &self.0.key)?;
        *self.current() = Current { config, judged, pending: None };
        tracing::info!(certificate = %self.0.cert.display(), "TLS certificate reloaded");
        Ok(())
    }

    /// What a new connection uses.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().config)
    }

    /// Looks after the files for ever.
    pub(crate) async fn watch(self) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let tls = self.clone();
            // A slow disk must not hold the connections up. An error is a panic there, which is already printed.
            let _ = tokio::task::spawn_blocking(move || tls.look()).await;
        }
    }

    /// Takes the files if they changed and then stayed the same for one look; a refusal is logged once per change.
    fn look(&self) {
        let found = Stamp::of(&self.0.cert, &self.0.key);
        if !self.current().is_settled(found) {
            return;
        }
        match self.reload() {
            Ok(()) => {}
            // Written while it was read: the next look sees another stamp.
            Err(_) if Stamp::of(&self.0.cert, &self.0.key) != found => self.current().pending = None,
            Err(error) => {
                tracing::warn!(%error, "the new TLS certificate is not usable; keeping the one in use");
                let mut current = self.current();
                current.judged = found;
                current.pending = None;
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    /// Whether files that look like `found` are new, and looked the same at the last look.
    fn is_settled(&mut self, found: Stamp) -> bool {
        if found == self.judged {
            self.pending = None;
            return false;
        }
        let settled = self.pending == Some(found);
        self.pending = Some(found);
        settled
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "files of tests need not be durable")]

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    /// Looks, and says whether the configuration is another one since.
    fn takes_something(tls: &Tls) -> bool {
        let before = tls.config();
        tls.look();
        !Arc::ptr_eq(&before, &tls.config())
    }

    #[test]
    fn a_new_pair_is_taken_when_two_looks_agree_and_once() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = (directory.path().join("cert"), directory.path().join("key"));
        let write = |(cert_pem, key_pem): (String, String)| {
            std::fs::write(&cert, cert_pem).unwrap();
            std::fs::write(&key, key_pem).unwrap();
        };
        write(pair());
        let tls = Tls::load(&cert, &key).unwrap();
        let looks = |count: usize| -> Vec<bool> { (0..count).map(|_| takes_something(&tls)).collect() };
        assert_eq!(looks(3), [false, false, false]);
        write(pair());
        assert_eq!(looks(4), [false, true, false, false]);
        // Still being written at the first look.
        let (cert_pem, key_pem) = pair();
        std::fs::write(&cert, &cert_pem[..100]).unwrap();
        assert_eq!(looks(1), [false]);
        write((cert_pem, key_pem));
        assert_eq!(looks(3), [false, true, false]);
    }

    #[test]
    fn a_bad_pair_is_refused_once_and_a_good_one_is_taken_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = (directory.path().join("cert"), directory.path().join("key"));
        let (cert_pem, key_pem) = pair();
        std::fs::write(&cert, &cert_pem).unwrap();
        std::fs::write(&key, &key_pem).unwrap();
        let tls = Tls::load(&cert, &key).unwrap();
        let old = tls.config();
        let (cert_pem, key_pem) = pair();
        std::fs::write(&cert, &cert_pem).unwrap();
        for _ in 0..3 {
            tls.look();
        }
        assert!(Arc::ptr_eq(&old, &tls.config()));
        assert_eq!(tls.current().judged, Stamp::of(&cert, &key), "it would be judged again at each look");
        std::fs::remove_file(&key).unwrap();
        for _ in 0..3 {
            tls.look();
        }
        assert!(Arc::ptr_eq(&old, &tls.config()));
        std::fs::write(&key, &key_pem).unwrap();
        for _ in 0..2 {
            tls.look();
        }
        assert!(!Arc::ptr_eq(&old, &tls.config()));
    }
}
