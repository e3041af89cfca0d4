//! What is done with a database of which nobody knows yet whether it is whole.
//!
//! sled panics where it finds what it cannot have written. Anywhere else a panic is a fault of the program, and
//! ends it; here it says that the database is damaged. It may come from a thread of sled's own, for
//! which the one that asked then waits for ever. Invariant: what is done on trial ends with a result
//! or an error, as far as the hook of panics asks [`takes_panic`].

use super::StoreError;
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// A trial that goes on: its number, and how it is told of a panic of one of sled's threads.
type Trial = (u64, Box<dyn Fn(&str) + Send>);

static TRIALS: Mutex<Vec<Trial>> = Mutex::new(Vec::new());

const THREAD: &str = "trial";

fn trials() -> MutexGuard<'static, Vec<Trial>> {
    TRIALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a panic says that a database on trial is damaged, and not that the program is at fault:
/// the hook of panics then has nothing to tell, and lets the program go on.
pub fn takes_panic(panic: &PanicHookInfo<'_>) -> bool {
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    if !(name == THREAD || name.starts_with("sled")) {
        return false;
    }
    let trials = trials();
    for (_, tell) in trials.iter().filter(|_| name != THREAD) {
        tell(panic_text(panic.payload()));
    }
    !trials.is_empty()
}

/// What a panic says.
pub fn panic_text(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason was given")
}

/// The error of the operating system that a panic tells of: sled panics of some of them.
fn os_error(text: &str) -> Option<io::Error> {
    let (_, code) = text.split_once("Os { code: ")?;
    let (code, _) = code.split_once(',')?;
    code.parse().ok().map(io::Error::from_raw_os_error)
}

/// Does `work` on the database called `name`, in a thread of its own, which stays behind if sled
/// lets it wait for ever.
///
/// # Errors
/// Those of `work`; or it has panicked, of an error of the operating system, or else the database is
/// damaged.
pub(super) fn on_trial<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (tell, told) = mpsc::channel();
    let witness = tell.clone();
    // Whoever hears nothing more has given the trial up.
    trials().push((number, Box::new(move |text| drop(witness.send(Err(text.to_owned()))))));
    let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(work));
        drop(tell.send(done.map_err(|panic| panic_text(&*panic).to_owned())));
    });
    let outcome = thread.map(|_| told.recv());
    trials().retain(|(known, _)| *known != number);
    match outcome {
        Ok(Ok(Ok(result))) => result,
        Ok(Ok(Err(text))) => Err(os_error(&text).map_or_else(
            || StoreError::damaged(name, format!("the database cannot be read: {text}")),
            |source| StoreError::copying(name.into(), source),
        )),
        Ok(Err(mpsc::RecvError)) => Err(StoreError::damaged(name, "it cannot be read")),
        Err(source) => Err(StoreError::io(name, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_on_trial_is_damage_or_what_the_system_has_said() {
        assert!(matches!(on_trial("d", || Ok(7)), Ok(7)));
        let broken = on_trial("d", || -> Result<(), StoreError> { panic!("page {} is gone", 7) });
        let told = broken.unwrap_err().to_string();
        assert!(told.contains("`d`") && told.contains("page 7 is gone"), "{told}");
        let full = on_trial("d", || -> Result<(), StoreError> {
            panic!("{:?}", io::Error::from_raw_os_error(28))
        });
        assert!(
            matches!(&full, Err(StoreError::NoCopy { source, .. }) if source.raw_os_error() == Some(28)),
            "{full:?}"
        );
    }

    #[test]
    fn a_panic_of_another_thread_ends_the_trial_that_waits_for_it() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !takes_panic(panic) {
                hook(panic);
            }
        }));
        let waits = on_trial("d", || -> Result<(), StoreError> {
            let failing = thread::Builder::new().name("sled-io-7".into());
            failing.spawn(|| panic!("fragment 9 is gone")).unwrap();
            loop {
                thread::park();
            }
        });
        let told = waits.unwrap_err().to_string();
        assert!(told.contains("fragment 9 is gone"), "{told}");
    }
}
