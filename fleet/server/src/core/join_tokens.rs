//! Making and removing join tokens (FLEET §5).

use fleet_store::{Fixed, JoinTokenRecord};
use fleet_wire::api::{ApiError, Code, JoinToken as Shown, MadeToken, NewJoinToken};
use serde_json::json;

use super::tokens::check_name;
use super::tx::Tx;
use super::{Actor, CoreState};
use crate::tokens;

impl CoreState {
    /// The join tokens, without their secrets.
    pub(crate) fn join_tokens(&self) -> Vec<Shown> {
        self.members.joins().iter().map(shown).collect()
    }

    /// Makes a join token. Its secret is in the answer and nowhere else.
    ///
    /// # Errors
    /// The name is taken or none, or what it fixes makes no sense.
    pub(crate) fn make_join_token(&mut self, actor: &Actor, new: &NewJoinToken) -> Result<MadeToken<Shown>, ApiError> {
        let subject = format!("join token {}", new.name);
        if let Err(wrong) = self.may_make_join(new) {
            return Err(self.refuse(actor, "join_token_made", &subject, wrong, false));
        }
        let secret = tokens::new();
        let fixed = Fixed { group: new.group.clone(), labels: new.labels.clone() };
        let token = JoinTokenRecord {
            name: new.name.clone(),
            digest: tokens::digest(&secret),
            created: self.now(),
            expires: new.expires,
            uses: new.uses,
            fixed: (fixed != Fixed::default()).then_some(fixed),
        };
        let made = shown(&token);
        self.members.set_join(&new.name, Some(token));
        let mut tx = Tx::new(self.book.clone());
        let detail = json!({ "uses": new.uses, "expires": new.expires, "group": new.group, "labels": new.labels });
        self.record(&mut tx, actor, "join_token_made", &subject, detail);
        self.commit(tx)?;
        Ok(MadeToken { token: made, secret })
    }

    fn may_make_join(&self, new: &NewJoinToken) -> Result<(), ApiError> {
        check_name(&new.name)?;
        let bad = |message: &str| Err(ApiError::new(Code::BadRequest, message));
        if new.expires.is_some_and(|expires| expires <= self.now()) {
            return bad("the token would have expired already");
        }
        if new.uses == Some(0) {
            return bad("a join token has at least one use");
        }
        if new.labels.len() > protocol::report::MAX_LABELS {
            return bad("a host has at most 64 labels");
        }
        if self.members.joins().iter().any(|token| token.name == new.name) {
            let message = format!("there is a join token {} already: remove it first, or take another name", new.name);
            return Err(ApiError::new(Code::AlreadyExists, message));
        }
        match &new.group {
            Some(group) => self.is_group(group),
            None => Ok(()),
        }
    }

    /// Removes a join token: no host enrols with it any more; those that did stay.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn remove_join_token(&mut self, actor: &Actor, id: &str, name: &str) -> Result<(), ApiError> {
        let subject = format!("join token {name}");
        self.once(id, &("join token", name), |keeper, request| {
            if !keeper.members.joins().iter().any(|token| token.name == name) {
                let wrong = ApiError::new(Code::NotFound, format!("there is no {subject}"));
                return Err(keeper.refuse(actor, "join_token_removed", &subject, wrong, false));
            }
            keeper.members.set_join(name, None);
            let mut tx = Tx::new(keeper.book.clone());
            keeper.record(&mut tx, actor, "join_token_removed", &subject, json!({}));
            keeper.finish(tx, request, ())
        })
    }
}

fn shown(token: &JoinTokenRecord) -> Shown {
    let fixed = token.fixed.clone().unwrap_or_default();
    Shown {
        name: token.name.clone(),
        created: token.created,
        expires: token.expires,
        uses: token.uses,
        group: fixed.group,
        labels: fixed.labels,
    }
}
