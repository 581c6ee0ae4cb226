//! TLS to a PostgreSQL server by rustls: its certificate is always verified, for its name.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt, TryFutureExt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::error::{Error, Result};

/// Makes TLS connections.
#[derive(Clone)]
pub(super) struct PostgresTls(TlsConnector);

impl PostgresTls {
    /// Trusts the authorities in the PEM file `roots`; without one those of this host. Errors: `Refused`.
    pub(super) fn new(roots: Option<&str>) -> Result<Self> {
        let mut store = rustls::RootCertStore::empty();
        if let Some(path) = roots {
            let wrong =
                |error: String| Error::Refused(format!("cannot read the authorities of sslrootcert={path}: {error}"));
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                store.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
        } else {
            // What of them cannot be read is not trusted.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Refused(error.to_string()))?;
        let mut config = config.with_root_certificates(store).with_no_client_auth();
        // For connections that begin with TLS (sslnegotiation=direct).
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl MakeTlsConnect<Socket> for PostgresTls {
    type Stream = PostgresStream;
    type TlsConnect = PostgresHandshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<PostgresHandshake> {
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(PostgresHandshake(self.0.clone(), name))
    }
}

pub(super) struct PostgresHandshake(TlsConnector, ServerName<'static>);

impl TlsConnect<Socket> for PostgresHandshake {
    type Stream = PostgresStream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<PostgresStream>>;

    fn connect(self, socket: Socket) -> Self::Future {
        self.0.connect(self.1, socket).map_ok(|stream| PostgresStream(Box::new(stream))).boxed()
    }
}

pub(super) struct PostgresStream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for PostgresStream {
    // Who is in the middle has no certificate for the name.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for PostgresStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PostgresStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
