//! Implementations of `Read` and `Write` that forward each method.

/// Implements `Read` by the methods `read` and `read_vectored` of `&$field`, for types that have
/// such a field.
macro_rules! read_by_field {
    ($field:tt: $($reader:ty),+) => {$(
        impl std::io::Read for $reader {
            #[track_caller]
            #[inline(always)]
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&self.$field).read(buf)
            }

            #[track_caller]
            fn read_vectored(
                &mut self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                (&self.$field).read_vectored(bufs)
            }

            $crate::op::whole::counted_read_exact!();
        }
    )+};
}

/// Implements `Write` by the methods `write` and `write_vectored` of `&$field`, for types that have
/// such a field and no buffer.
macro_rules! write_by_field {
    ($field:tt: $($writer:ty),+) => {$(
        impl std::io::Write for $writer {
            #[track_caller]
            #[inline(always)]
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                (&self.$field).write(buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&self.$field).write_vectored(bufs)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }

            $crate::op::whole::counted_write_all!();
        }
    )+};
}

/// Implements `Read` for a type by `Read` of its shared reference.
macro_rules! read_by_reference {
    ($reader:ty) => {
        impl std::io::Read for $reader {
            #[track_caller]
            #[inline(always)]
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buf)
            }

            #[track_caller]
            fn read_vectored(
                &mut self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }

            #[track_caller]
            fn read_to_end(&mut self, buf: &mut Vec<u8>) -> std::io::Result<usize> {
                (&*self).read_to_end(buf)
            }

            #[track_caller]
            fn read_to_string(&mut self, buf: &mut String) -> std::io::Result<usize> {
                (&*self).read_to_string(buf)
            }

            #[track_caller]
            fn read_exact(&mut self, buf: &mut [u8]) -> std::io::Result<()> {
                (&*self).read_exact(buf)
            }
        }
    };
}

/// Implements `Write` for a type by `Write` of its shared reference.
macro_rules! write_by_reference {
    ($writer:ty) => {
        impl std::io::Write for $writer {
            #[track_caller]
            #[inline(always)]
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                (&*self).write(buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            #[track_caller]
            fn write_all(&mut self, buf: &[u8]) -> std::io::Result<()> {
                (&*self).write_all(buf)
            }

            #[track_caller]
            fn write_fmt(&mut self, arguments: std::fmt::Arguments<'_>) -> std::io::Result<()> {
                (&*self).write_fmt(arguments)
            }

            #[track_caller]
            fn flush(&mut self) -> std::io::Result<()> {
                (&*self).flush()
            }
        }
    };
}

pub(crate) use {read_by_field, read_by_reference, write_by_field, write_by_reference};
