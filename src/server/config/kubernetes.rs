//! Variables that Kubernetes sets in every container for the services of its namespace. Those of a
//! service named `capstan` or `capstan-<suffix>` look like settings.

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Whether `CAPSTAN_<name>` is such a variable: `SERVICE_HOST`, `SERVICE_PORT`,
/// `SERVICE_PORT_<port name>`, `PORT` with an address as value, or `PORT_7654_TCP`, optionally with
/// `_PROTO`, `_PORT` or `_ADDR`. The rest of the service's name may precede each.
pub fn is_service_link(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    (0..words.len()).any(|start| match &words[start..] {
        ["SERVICE", "HOST" | "PORT"] => true,
        ["SERVICE", "PORT", rest @ ..] => rest.iter().all(|word| !word.is_empty()),
        ["PORT"] => is_address(value),
        ["PORT", number, protocol] | ["PORT", number, protocol, "PROTO" | "PORT" | "ADDR"] => {
            number.parse::<u16>().is_ok() && PROTOCOLS.contains(protocol)
        }
        _ => false,
    })
}

/// Whether `value` is an address such as `tcp://10.0.0.1:7654`.
fn is_address(value: &str) -> bool {
    let scheme = value.split_once("://").map(|(scheme, _)| scheme.to_ascii_uppercase());
    scheme.is_some_and(|scheme| PROTOCOLS.contains(&scheme.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TABLE;

    #[test]
    fn recognizes_service_links_and_nothing_else() {
        for (name, value) in [
            ("SERVICE_HOST", "10.0.0.1"),
            ("SERVICE_PORT", "7654"),
            ("SERVICE_PORT_GRPC", "7654"),
            ("SERVICE_PORT_GRPC_WEB", "7654"),
            ("PORT", "tcp://10.0.0.1:7654"),
            ("PORT_7654_TCP", "tcp://10.0.0.1:7654"),
            ("PORT_7654_TCP_PROTO", "tcp"),
            ("PORT_7654_TCP_PORT", "7654"),
            ("PORT_7654_TCP_ADDR", "10.0.0.1"),
            ("METRICS_SERVICE_HOST", "10.0.0.2"),
            ("METRICS_PORT", "udp://10.0.0.2:9464"),
            ("METRICS_PORT_9464_UDP", "udp://10.0.0.2:9464"),
        ] {
            assert!(is_service_link(name, value), "{name}");
        }
        for (name, value) in [
            ("PORT", "7654"),
            ("LISTEN_PORT", "7654"),
            ("SERVICE", "x"),
            ("SERVICE_PORTS", "7654"),
            ("PORT_TCP", "7654"),
            ("PORT_X_TCP", "7654"),
            ("PORT_7654_HTTP", "7654"),
            ("PORT_7654_TCP_NAME", "7654"),
        ] {
            assert!(!is_service_link(name, value), "{name}");
        }
        for setting in TABLE {
            assert!(!is_service_link(&setting.name.to_uppercase(), "tcp://x"), "{}", setting.name);
        }
    }
}
