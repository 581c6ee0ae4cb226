//! Making and removing tokens: of the admin API, and those with which hosts enrol (FLEET §5, §8).

use fleet_store::{Fixed, JoinTokenRecord, StoredToken};
use fleet_wire::api::{ApiError, Code, JoinToken, MadeToken, NewJoinToken, NewToken, Token};
use jiff::Timestamp;
use protocol::report::{MAX_LABELS, MAX_NUMBER};
use serde_json::json;

use super::actor::own_id;
use super::tx::{RequestedAction, Tx};
use super::{Actor, CoreState};
use crate::tokens;

/// Longest name, characters.
const MAX_NAME: usize = 64;

/// The tokens, without their secrets.
pub(crate) fn list(tx: &Tx<'_>) -> Vec<Token> {
    tx.state().tokens.all().iter().map(shown).collect()
}

/// The join tokens, without their secrets.
pub(crate) fn list_join(tx: &Tx<'_>) -> Vec<JoinToken> {
    tx.state().enrolments.joins().iter().map(shown_join).collect()
}

/// Makes a token. Its secret is in the answer and nowhere else: a request that is sent again is refused.
///
/// # Errors
/// The name is taken, or is none.
pub(crate) fn make(tx: &mut Tx<'_>, actor: &Actor, new: &NewToken) -> Result<MadeToken, ApiError> {
    let NewToken { name, role, expires, .. } = new;
    let (action, subject) = ("token_made", format!("token {name}"));
    tx.decide(&RequestedAction { actor, action, subject: &subject, is_dry: false }, None, |tx| {
        own_id(&new.id)?;
        check(tx.state(), name, *expires)?;
        is_free(tx.state().tokens.all().iter().all(|token| token.name != *name), &subject)?;
        let (secret, created) = (tokens::new(), tx.state().now());
        let digest = tokens::digest(&secret);
        let token = StoredToken { name: name.clone(), digest, role: *role, created, expires: *expires };
        let made = MadeToken { token: shown(&token), secret };
        tx.draft.tokens.push((name.clone(), Some(token)));
        tx.draft.detail = json!({ "role": role, "expires": expires });
        Ok(made)
    })
}

/// Makes a join token. Its secret is in the answer and nowhere else.
///
/// # Errors
/// The name is taken or none, or what it fixes makes no sense.
pub(crate) fn make_join(tx: &mut Tx<'_>, actor: &Actor, new: &NewJoinToken) -> Result<MadeToken<JoinToken>, ApiError> {
    let NewJoinToken { name, expires, uses, group, labels, .. } = new;
    let (action, subject) = ("join_token_made", format!("join token {name}"));
    tx.decide(&RequestedAction { actor, action, subject: &subject, is_dry: false }, None, |tx| {
        own_id(&new.id)?;
        check(tx.state(), name, *expires)?;
        let bad = |message: &str| Err(ApiError::new(Code::BadRequest, message));
        if uses.is_some_and(|uses| !(1..=MAX_NUMBER).contains(&uses)) {
            return bad(&format!("a join token has 1 to {MAX_NUMBER} uses"));
        }
        if labels.len() > MAX_LABELS {
            return bad("a host has at most 64 labels");
        }
        is_free(tx.state().enrolments.joins().iter().all(|token| token.name != *name), &subject)?;
        if let Some(group) = group {
            tx.state().is_group(group)?;
        }
        let (secret, created) = (tokens::new(), tx.state().now());
        let fixed = Fixed { group: group.clone(), labels: labels.clone() };
        let token = JoinTokenRecord {
            name: name.clone(),
            digest: tokens::digest(&secret),
            created,
            expires: *expires,
            uses: *uses,
            fixed: (fixed != Fixed::default()).then_some(fixed),
        };
        let made = MadeToken { token: shown_join(&token), secret };
        tx.ledger.state.enrolments.set_join(name, Some(token));
        tx.draft.detail = json!({ "uses": uses, "expires": expires, "group": group, "labels": labels });
        Ok(made)
    })
}

/// Removes a token: who uses it is not known any more, from now on.
///
/// # Errors
/// There is none of this name.
pub(crate) fn remove(tx: &mut Tx<'_>, actor: &Actor, id: &str, name: &str) -> Result<(), ApiError> {
    let subject = format!("token {name}");
    let asked = RequestedAction { actor, action: "token_removed", subject: &subject, is_dry: false };
    tx.once(&asked, id, &("token", name), |tx| {
        is_there(tx.state().tokens.all().iter().any(|token| token.name == name), &subject)?;
        tx.draft.tokens.push((name.to_owned(), None));
        Ok(())
    })
}

/// Removes a join token: no host enrols with it any more; those that did stay.
///
/// # Errors
/// There is none of this name.
pub(crate) fn remove_join(tx: &mut Tx<'_>, actor: &Actor, id: &str, name: &str) -> Result<(), ApiError> {
    let subject = format!("join token {name}");
    let asked = RequestedAction { actor, action: "join_token_removed", subject: &subject, is_dry: false };
    tx.once(&asked, id, &("join token", name), |tx| {
        is_there(tx.state().enrolments.joins().iter().any(|token| token.name == name), &subject)?;
        tx.ledger.state.enrolments.set_join(name, None);
        Ok(())
    })
}

/// What a token may be called, and when it may end.
fn check(state: &CoreState, name: &str, expires: Option<Timestamp>) -> Result<(), ApiError> {
    let is_good = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    let bad = |message: String| Err(ApiError::new(Code::BadRequest, message));
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_good) {
        return bad(format!("a token's name has 1 to {MAX_NAME} letters, digits, `.`, `_` or `-`"));
    }
    if expires.is_some_and(|expires| expires <= state.now()) {
        let what = format!("the token would have expired already: it is {} now", state.now());
        return Err(ApiError::new(Code::Conflict, what));
    }
    Ok(())
}

fn is_free(is_free: bool, token: &str) -> Result<(), ApiError> {
    let message = || format!("there is a {token} already: remove it first, or take another name");
    if is_free { Ok(()) } else { Err(ApiError::new(Code::AlreadyExists, message())) }
}

fn is_there(is_there: bool, token: &str) -> Result<(), ApiError> {
    if is_there { Ok(()) } else { Err(ApiError::new(Code::NotFound, format!("there is no {token}"))) }
}

fn shown(token: &StoredToken) -> Token {
    Token { name: token.name.clone(), role: token.role.into(), created: token.created, expires: token.expires }
}

fn shown_join(token: &JoinTokenRecord) -> JoinToken {
    let Fixed { group, labels } = token.fixed.clone().unwrap_or_default();
    let JoinTokenRecord { name, created, expires, uses, .. } = token.clone();
    JoinToken { name, created, expires, uses, group, labels }
}
