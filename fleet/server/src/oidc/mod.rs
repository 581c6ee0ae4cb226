//! Login of the dashboard by an OpenID Connect provider (FLEET §8): the authorization code flow with PKCE. What comes from the
//! browser and from the provider is checked in `trip`, `discovered`, `keys` and `id_token`, which are pure; `login` asks the provider.

mod settings;

#[cfg(feature = "oidc")]
mod discovered;
#[cfg(feature = "oidc")]
mod id_token;
#[cfg(feature = "oidc")]
mod keys;
#[cfg(feature = "oidc")]
mod login;
#[cfg(feature = "oidc")]
mod provider;
#[cfg(feature = "oidc")]
mod trip;

#[cfg(feature = "oidc")]
pub(crate) use settings::{CALLBACK, check_secret};
pub(crate) use settings::{Oidc, doctor, is_said, pairs, roles};

#[cfg(feature = "oidc")]
pub(crate) use login::{LoggedInUser, LoginRefusal, OidcLogin};
#[cfg(feature = "oidc")]
pub(crate) use trip::MAX_AGE;
