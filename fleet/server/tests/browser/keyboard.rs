//! Everything on a page is reached by the keyboard, and it is seen where it is.

use crate::driver::{Browser, DESK, PHONE};
use crate::pages::{TAB, logged_in, started};
use crate::support::PAGES;

/// What can be used, in the order of the page.
const USABLE: &str = "const usable = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, \
                      [tabindex=\"0\"]')]; const at = document.activeElement; const box = at.getBoundingClientRect(); \
                      return [usable.length, usable.indexOf(at), getComputedStyle(at).outlineStyle, box.bottom > 0 && \
                      box.top < innerHeight, at.outerHTML.slice(0, 200)]";

fn walk(browser: &Browser, page: &str) {
    let count = browser.run(USABLE)[0].as_u64().unwrap();
    for index in 0..count {
        browser.press(TAB);
        let at = browser.run(USABLE);
        assert_eq!(at[1].as_u64(), Some(index), "{page}: {at}");
        assert!(at[2] != "none" && at[3] == true, "{page}: it is not seen where the keyboard is: {at}");
    }
}

#[test]
fn every_link_field_and_button_of_every_page_is_reached_in_order_and_seen() {
    let (_dir, server, token) = started();
    for look in [DESK, PHONE] {
        let Some(browser) = logged_in(&server, &token, look) else { return };
        for page in PAGES {
            browser.open(&format!("http://{}{page}", server.addr));
            walk(&browser, page);
        }
    }
}
