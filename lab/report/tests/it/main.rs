//! Tests of reports in a browser.

mod browser;
