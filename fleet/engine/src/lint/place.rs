//! Where something is written.

use yaml::Node;

use super::Found;

/// A place in a document, written or not.
#[derive(Debug, Clone)]
pub(super) struct DocumentPlace<'a> {
    node: Option<&'a Node>,
    /// Its line; of something that is not written, that of the nearest place above that is.
    pub(super) line: Option<usize>,
    pub(super) path: String,
}

impl<'a> DocumentPlace<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Self { node: Some(node), line: line_of(node), path: String::new() }
    }

    /// The place of a key.
    pub(super) fn key(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        self.to(self.node.and_then(|node| node.get(key)), path)
    }

    /// The place of an item.
    pub(super) fn item(&self, nth: usize) -> Self {
        let node = self.node.and_then(Node::items).and_then(|items| items.get(nth));
        self.to(node, format!("{}[{nth}]", self.path))
    }

    fn to(&self, node: Option<&'a Node>, path: String) -> Self {
        Self { node, line: node.and_then(line_of).or(self.line), path }
    }

    /// Something is written there.
    pub(super) fn is_written(&self) -> bool {
        self.node.is_some_and(|node| !node.is_null())
    }

    /// What is written, kept for those who write it, and means nothing.
    pub(super) fn ignored(&self, found: &mut Found) {
        let of_metadata = ["expires", "description", "labels"].map(|key| self.key("metadata").key(key));
        for at in [self.key("nonce")].into_iter().chain(of_metadata).filter(Self::is_written) {
            found.add(&at, "ignored_field", "is kept, and means nothing to this server", "leave it out");
        }
    }
}

fn line_of(node: &Node) -> Option<usize> {
    (node.line > 0).then_some(node.line)
}
