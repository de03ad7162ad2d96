//! The page `/status`: three files without external parts, which show the report `/status.json`.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{
        AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
        WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
};

use super::plain_text::text;

/// Answers a request for the server's status, given the value of its header `authorization`.
pub type StatusSource =
    Arc<dyn Fn(Option<String>) -> BoxFuture<'static, StatusAnswer> + Send + Sync>;

/// An answer to a request for the server's status.
#[derive(Debug)]
pub enum StatusAnswer {
    /// JSON.
    Report(String),
    /// The credentials are not an administrator's.
    Refused,
    /// Why there is no report.
    Unavailable(String),
}

/// The page loads its own script and style, and asks its own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page; `None` if the path names none.
pub fn file(path: &str) -> Option<Response<Full<Bytes>>> {
    let (kind, content) = match path {
        "/status" => ("text/html; charset=utf-8", include_str!("page/status.html")),
        "/status.css" => ("text/css; charset=utf-8", include_str!("page/status.css")),
        "/status.js" => ("text/javascript; charset=utf-8", include_str!("page/status.js")),
        _ => return None,
    };
    let mut response = text(StatusCode::OK, content);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Some(response)
}

/// Whether the connection is encrypted or local, so that `peer` may send a token.
pub fn is_private(peer: IpAddr, has_tls: bool) -> bool {
    // A socket for IPv6 shows IPv4 addresses as mapped ones.
    has_tls || peer.to_canonical().is_loopback()
}

/// The report as JSON. `is_private`: nobody on the way can read a token.
pub async fn report(
    headers: &HeaderMap,
    is_private: bool,
    source: &StatusSource,
) -> Response<Full<Bytes>> {
    let authorization = headers.get(AUTHORIZATION);
    if authorization.is_some() && !is_private {
        let refusal = "send tokens by https (metrics_tls) or from the server's host only";
        return text(StatusCode::FORBIDDEN, refusal);
    }
    let authorization = authorization.map(|value| value.to_str().unwrap_or_default().to_owned());
    let mut response = match source(authorization).await {
        StatusAnswer::Report(json) => {
            let mut response = text(StatusCode::OK, json);
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        StatusAnswer::Refused => {
            let refusal = "the token is not that of a caller in status_admins";
            let mut response = text(StatusCode::UNAUTHORIZED, refusal);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
        StatusAnswer::Unavailable(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn tokens_from_other_hosts_need_tls() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let source: StatusSource = Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { StatusAnswer::Report("{}".into()) })
        });
        let bearer = [(AUTHORIZATION, HeaderValue::from_static("Bearer x"))];
        let (with_token, without) = (HeaderMap::from_iter(bearer), HeaderMap::new());
        for (peer, has_tls, status) in [
            ("192.0.2.1", false, StatusCode::FORBIDDEN),
            ("2001:db8::1", false, StatusCode::FORBIDDEN),
            ("::ffff:192.0.2.1", false, StatusCode::FORBIDDEN),
            ("192.0.2.1", true, StatusCode::OK),
            ("127.0.0.1", false, StatusCode::OK),
            ("::ffff:127.0.0.1", false, StatusCode::OK),
            ("::1", false, StatusCode::OK),
        ] {
            let is_private = is_private(peer.parse().unwrap(), has_tls);
            asked.store(0, Ordering::Relaxed);
            let answer = report(&with_token, is_private, &source).await;
            assert_eq!(answer.status(), status, "{peer}, {has_tls}");
            let was_asked = u32::from(status == StatusCode::OK);
            assert_eq!(asked.load(Ordering::Relaxed), was_asked, "{peer}, {has_tls}");
            assert_eq!(report(&without, is_private, &source).await.status(), StatusCode::OK);
        }
    }
}
