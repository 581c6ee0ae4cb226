//! Ways in which servers, mirrors and networks go wrong.

/// One way. Those that change the body combine; of those that replace the answer the first counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misbehaviour {
    /// The body drips.
    Slow {
        /// Of the body.
        bytes_per_sec: u64,
    },
    /// The body stands still until the client leaves.
    Stall {
        /// Bytes of this answer's body sent before.
        after_bytes: u64,
    },
    /// The body stands still until [`Cluster::behave`](crate::cluster::Cluster::behave), and then goes on.
    Hold {
        /// Of this answer's body, sent before.
        after_bytes: u64,
    },
    /// The connection drops when this offset *of the file* is reached: a request that resumes behind it gets the rest.
    CutAfter {
        /// Offset within the file.
        bytes: u64,
    },
    /// Every answer's connection drops after so many bytes of its body.
    CutEvery {
        /// Of this answer's body.
        bytes: u64,
    },
    /// No Content-Length, chunked transfer coding.
    Chunked,
    /// No Content-Length, the body ends with the connection.
    NoLength,
    /// A Content-Length that is wrong by so much; then the connection ends.
    WrongLength(i64),
    /// This status, perhaps with `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// 302 to this URL.
    Redirect(String),
    /// 302 to the same path for ever.
    RedirectLoop,
    /// 200 with an HTML page.
    WrongType,
    /// Something valid but outdated: the directive before, an archive of another digest, another digest.
    Stale,
    /// A mirror that compresses once more and says so.
    ContentEncodingGzip,
    /// 200 with the whole body in answer to a range.
    IgnoreRange,
    /// 206 with the right body and a wrong Content-Range.
    WrongRange,
    /// From the second download on another file of the same name, with another ETag; a range with the old one in
    /// `If-Range` gets the whole new file.
    ChangedMidway,
    /// 200 with so many bytes of filler.
    HugeBody(u64),
    /// So many bytes of header before the real ones.
    HugeHeaders(u64),
    /// This many connections are reset before TLS, whatever the path. For true refusals: `Cluster::go_down`.
    ConnectionRefusedFor(u64),
    /// The request is read, the connection drops.
    CloseBeforeResponse,
    /// Connections meet a certificate for another name, whatever the path.
    BadTls,
}

/// Where a misbehaviour applies, and how often still.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub path: String,
    pub how: Misbehaviour,
    pub left: Option<u64>,
    pub hits: u64,
}

impl Rule {
    pub(crate) fn new(path: &str, how: Misbehaviour, times: Option<u64>) -> Self {
        let left = match how {
            Misbehaviour::ConnectionRefusedFor(count) => Some(count),
            _ => times,
        };
        Self { path: path.to_owned(), how, left, hits: 0 }
    }

    /// Whether it applies to a connection rather than a request.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.how, Misbehaviour::ConnectionRefusedFor(_) | Misbehaviour::BadTls)
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        match self.path.strip_suffix('$') {
            Some(end) => path.ends_with(end),
            None => path.contains(&self.path),
        }
    }

    /// Counts one use; false if used up.
    pub(crate) fn take(&mut self) -> bool {
        match &mut self.left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        self.hits += 1;
        true
    }
}
