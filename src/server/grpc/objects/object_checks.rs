//! Hashes stored objects again from time to time, on a thread that gives way to all others.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use rustix::process::setpriority_process;
use tracing::error;

use crate::grpc::state::ServerState;
use crate::{
    store::ObjectCheck,
    telemetry::{self, AuditAction, AuditEvent},
    tenant::Tenant,
    wire::decode::ObjectId,
};

/// The pause after each piece while there are jobs, and between looks at the end of the server.
const PAUSE: Duration = Duration::from_millis(100);

/// The niceness that leaves the processors to every other thread.
const LOWEST_PRIORITY: i32 = 19;

/// Starts to check all objects after each interval, unless it is 0. Ends with the server.
///
/// Errors: no thread can be started.
pub fn start(state: &Arc<ServerState>) -> io::Result<()> {
    let server = Arc::downgrade(state);
    let interval = state.settings.object_check_interval;
    if interval.is_zero() {
        return Ok(());
    }
    let check = move || {
        // On Linux, of this thread only. Without it, the pauses leave most of the time to jobs.
        let _refused = setpriority_process(None, LOWEST_PRIORITY);
        check_repeatedly(&server, interval);
    };
    thread::Builder::new().name("capstan-recheck".into()).spawn(check).map(drop)
}

fn check_repeatedly(server: &Weak<ServerState>, interval: Duration) {
    // Files are checked when they are loaded, and objects when they are put.
    let mut due = Instant::now() + interval;
    while server.upgrade().is_some_and(|state| !state.drain.is_draining()) {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left.min(PAUSE));
            continue;
        }
        due = Instant::now() + interval;
        check_all(server);
    }
}

/// Does not keep the server in memory between objects.
fn check_all(server: &Weak<ServerState>) {
    let Some(tenants) = server.upgrade().map(|state| state.tenants.in_use()) else { return };
    for tenant in tenants {
        let list = |state: Arc<ServerState>| state.objects.list(tenant.id);
        let Some(objects) = server.upgrade().map(list) else { return };
        let ids: Vec<_> = objects.iter().map(|object| object.id).collect();
        drop(objects);
        for id in ids {
            let Some(state) = server.upgrade() else { return };
            // Objects after this one are checked, too.
            let checked = catch_unwind(AssertUnwindSafe(|| check(&state, &tenant, id)));
            if checked.is_err() {
                let object = hex::encode(id.0);
                error!(object, "the check of a stored object panicked");
            }
        }
    }
}

fn check(state: &ServerState, tenant: &Tenant, id: ObjectId) {
    let may_go_on = || {
        if state.budget.jobs.used() > 0 {
            thread::sleep(PAUSE);
        }
        !state.drain.is_draining()
    };
    let outcome = match state.objects.check_again(tenant, id, may_go_on) {
        ObjectCheck::Unknown => return,
        ObjectCheck::Intact => "intact",
        ObjectCheck::Damaged { others } => {
            report_damage(tenant, id);
            state.tenants.with_ids(&others).iter().for_each(|other| report_damage(other, id));
            "damaged"
        }
    };
    telemetry::OBJECT_CHECKS_TOTAL.with([outcome]).increment(1);
}

fn report_damage(tenant: &Tenant, id: ObjectId) {
    let object = hex::encode(id.0);
    let name = tenant.name.as_str();
    error!(object, tenant = name, "a stored object is damaged: put it again");
    telemetry::audit(&AuditEvent {
        action: AuditAction::FoundDamaged,
        caller: "",
        tenant: name,
        request_id: "",
        remote: None,
        object: format_args!("object {object}"),
    });
}
