//! When a pool has a keeper. In a process of its own, because a dump shows all strands.

use std::convert::Infallible;

use ramie::{Runtime, fiber, inspect};
use ramie_pool::{ManageConnection, Pool};

struct Nothing;

impl ManageConnection for Nothing {
    type Connection = ();
    type Error = Infallible;

    fn connect(&self) -> Result<(), Infallible> {
        Ok(())
    }

    fn is_valid(&self, (): &mut ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, (): &mut ()) -> bool {
        false
    }
}

/// Whether a keeper runs or waits, after all fibers have run.
fn has_keeper() -> bool {
    (0..10).for_each(|_| fiber::yield_now());
    inspect::dump().to_string().contains("pool keeper")
}

#[test]
fn a_keeper_lives_as_long_as_it_has_something_to_do() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let without_limits = Pool::builder().max_lifetime(None).idle_timeout(None).build(Nothing);
        drop(without_limits.get().unwrap());
        assert!(!has_keeper());

        let pool = Pool::builder().build(Nothing);
        let connection = pool.get().unwrap();
        assert!(!has_keeper());
        drop(connection);
        assert!(has_keeper());
        pool.close();
        assert!(!has_keeper());

        let pool = Pool::builder().build(Nothing);
        drop(pool.get().unwrap());
        assert!(has_keeper());
        drop(pool);
        assert!(!has_keeper());

        // Connections are missing, but a closed pool needs none.
        let pool = Pool::builder().min_idle(1).build(Nothing);
        assert!(has_keeper());
        pool.close();
        assert!(!has_keeper());
    });
}
