//! Finds out whether this kernel loads iterators over the elements of maps. Some kernels for virtual machines refuse them,
//! with EPERM, though they have them.

use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::btf::types::Func;
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::libbpf_sys::{
    BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, bpf_insn, bpf_prog_load, bpf_prog_load_opts,
};

/// The kernel's function by which programs know the iterator over the sockets that have storage.
const TARGET: &str = "bpf_iter_bpf_sk_storage_map";

/// Loads the shortest iterator over sockets with storage: `r0 = 0; exit`. Returns whether the kernel took it.
pub(super) fn is_loaded(btf: &Btf<'_>) -> bool {
    let Some(target) = btf.type_by_name::<Func<'_>>(TARGET) else {
        return false;
    };
    let target: BtfType<'_> = *target;
    let code = [0xb7, 0x95].map(|code| bpf_insn {
        code,
        ..Default::default()
    });
    let options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as _,
        expected_attach_type: BPF_TRACE_ITER,
        attach_btf_id: u32::from(target.type_id()),
        ..Default::default()
    };
    // SAFETY: name and licence are C strings, `code` holds the two instructions counted, and `options` says its own size;
    // all live until the call returns.
    let fd = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_TRACING,
            c"try_iterator".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as _,
            &raw const options as *mut _,
        )
    };
    if fd < 0 {
        return false;
    }
    // SAFETY: the kernel has just given this descriptor to us.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}
