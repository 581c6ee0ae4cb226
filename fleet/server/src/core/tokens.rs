//! Making and removing tokens of the admin API.

use fleet_store::StoredToken;
use fleet_wire::api::{ApiError, Code, MadeToken, NewToken, Token};
use serde_json::json;

use super::tx::Tx;
use super::{Actor, CoreState};
use crate::tokens;

/// Longest name, characters.
const MAX_NAME: usize = 64;

impl CoreState {
    /// The tokens, without their secrets.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.tokens.all().iter().map(shown).collect()
    }

    /// Makes a token. Its secret is in the answer and nowhere else: a request that is sent again is refused.
    ///
    /// # Errors
    /// The name is taken, or is none.
    pub(crate) fn make_token(&mut self, actor: &Actor, new: &NewToken) -> Result<MadeToken, ApiError> {
        let subject = format!("token {}", new.name);
        if let Err(wrong) = self.may_make(new) {
            return Err(self.refuse(actor, "token_made", &subject, wrong, false));
        }
        let secret = tokens::new();
        let (now, digest) = (self.now(), tokens::digest(&secret));
        let token = StoredToken { name: new.name.clone(), digest, role: new.role, created: now, expires: new.expires };
        let mut tx = Tx::new(self.book.clone());
        tx.tokens.push((new.name.clone(), Some(token.clone())));
        let detail = json!({ "role": new.role, "expires": new.expires });
        self.record(&mut tx, actor, "token_made", &subject, detail);
        self.commit(tx)?;
        Ok(MadeToken { token: shown(&token), secret })
    }

    fn may_make(&self, new: &NewToken) -> Result<(), ApiError> {
        check_name(&new.name)?;
        if new.expires.is_some_and(|expires| expires <= self.now()) {
            return Err(ApiError::new(Code::BadRequest, "the token would have expired already"));
        }
        if self.tokens.all().iter().any(|token| token.name == new.name) {
            let message = format!("there is a token {} already: remove it first, or take another name", new.name);
            return Err(ApiError::new(Code::AlreadyExists, message));
        }
        Ok(())
    }

    /// Removes a token: who uses it is not known any more, from now on.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn remove_token(&mut self, actor: &Actor, id: &str, name: &str) -> Result<(), ApiError> {
        let subject = format!("token {name}");
        self.once(id, &("token", name), |keeper, request| {
            if !keeper.tokens.all().iter().any(|token| token.name == name) {
                let wrong = ApiError::new(Code::NotFound, format!("there is no {subject}"));
                return Err(keeper.refuse(actor, "token_removed", &subject, wrong, false));
            }
            let mut tx = Tx::new(keeper.book.clone());
            tx.tokens.push((name.to_owned(), None));
            keeper.record(&mut tx, actor, "token_removed", &subject, json!({}));
            keeper.finish(tx, request, ())
        })
    }
}

/// What a token may be called.
pub(super) fn check_name(name: &str) -> Result<(), ApiError> {
    let is_good = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_good) {
        let message = format!("a token's name has 1 to {MAX_NAME} letters, digits, `.`, `_` or `-`");
        return Err(ApiError::new(Code::BadRequest, message));
    }
    Ok(())
}

fn shown(token: &StoredToken) -> Token {
    Token { name: token.name.clone(), role: token.role, created: token.created, expires: token.expires }
}
