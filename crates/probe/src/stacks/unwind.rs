//! Registers and a copy of the stack → return addresses. Programs and libraries are rarely compiled with
//! frame pointers, but nearly always come with tables that show how to find each caller (`.eh_frame`);
//! framehop reads them.

use std::ops::Range;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module,
    UnwindRegsNative, Unwinder, UnwinderNative,
};
use table::Caller;

use super::mappings::Mapping;
use super::objects::{Object, Section};
use crate::interface::{Registers, SeenStack};

/// Frames that are kept of a stack.
const MOST_FRAMES: usize = 128;

/// Unwinds the stacks of one program.
#[derive(Default)]
pub(super) struct ProgramUnwinder {
    unwinder: UnwinderNative<Section, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// Code with tables that show the callers.
    with_tables: Vec<Range<u64>>,
    /// The highest address of code.
    highest: u64,
}

/// Return addresses, innermost first, and what is known of the outermost one's caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unwound {
    pub(super) addresses: Vec<u64>,
    pub(super) caller: Caller,
    /// The tables name a caller that is no known code; `None`: not so.
    pub(super) beyond: Option<u64>,
}

impl ProgramUnwinder {
    /// Adds a mapped file with its unwind tables.
    pub(super) fn add(&mut self, mapping: &Mapping, object: &Object) {
        self.highest = self.highest.max(mapping.addresses.end.saturating_sub(1));
        let Some(tables) = &object.tables else {
            return;
        };
        let Some(linked) = tables.linked_address(mapping) else {
            return;
        };
        if tables.eh_frame.is_some() {
            self.with_tables.push(mapping.addresses.clone());
        }
        // as if linked for address 0: framehop needs the distance only
        let base = mapping.addresses.start.wrapping_sub(linked);
        let (eh_frame, eh_frame_hdr) = (tables.eh_frame.clone(), tables.eh_frame_hdr.clone());
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: tables.text.clone(),
            eh_frame_svma: eh_frame.as_ref().map(|it| it.0.clone()),
            eh_frame: eh_frame.map(|it| it.1),
            eh_frame_hdr_svma: eh_frame_hdr.as_ref().map(|it| it.0.clone()),
            eh_frame_hdr: eh_frame_hdr.map(|it| it.1),
            ..no_sections()
        };
        let (name, range) = (object.path.clone(), mapping.addresses.clone());
        self.unwinder
            .add_module(Module::new(name, range, base, sections));
    }

    /// Returns the return addresses of a stack, by tables, and beyond the copied part by frame
    /// pointers.
    pub(super) fn unwind(&mut self, stack: &SeenStack, is_code: impl Fn(u64) -> bool) -> Unwound {
        let mut registers = native(stack.registers, self.highest);
        let mut address = FrameAddress::InstructionPointer(stack.registers.ip);
        let mut addresses = vec![stack.registers.ip];
        let mut read = |at: u64| word_at(stack, at).ok_or(());
        let mut beyond = None;
        let caller = loop {
            if addresses.len() >= MOST_FRAMES {
                break Caller::LeftOut;
            }
            let next =
                self.unwinder
                    .unwind_frame(address, &mut registers, &mut self.cache, &mut read);
            match next {
                Ok(None) if self.has_tables(address) => break Caller::None,
                Ok(Some(caller)) if is_code(caller) => {
                    addresses.push(caller);
                    match FrameAddress::from_return_address(caller) {
                        Some(next) => address = next,
                        None => break Caller::Unknown,
                    }
                }
                Ok(caller) => {
                    beyond = caller.filter(|_| self.has_tables(address));
                    break Caller::Unknown;
                }
                Err(_) => break Caller::Unknown,
            }
        };
        let unwound = Unwound {
            addresses,
            caller,
            beyond,
        };
        if caller == Caller::Unknown {
            return unwound.follow_frame_pointers(stack, frame_pointer(&registers), is_code);
        }
        unwound
    }
}

impl ProgramUnwinder {
    /// Returns whether the code has unwind tables. Without them framehop follows frame pointers, and takes a zero for
    /// the end.
    fn has_tables(&self, address: FrameAddress) -> bool {
        let address = address.address_for_lookup();
        self.with_tables.iter().any(|code| code.contains(&address))
    }
}

impl Unwound {
    /// Continues with the chain of frame pointers, if it joins this stack.
    fn follow_frame_pointers(
        mut self,
        stack: &SeenStack,
        fp: u64,
        is_code: impl Fn(u64) -> bool,
    ) -> Self {
        let chain = &stack.addresses;
        let joint = self
            .addresses
            .iter()
            .rev()
            .find_map(|it| chain.iter().rposition(|of| of == it));
        let from = if fp == stack.registers.fp {
            Some(0)
        } else {
            joint
        };
        let rest = from
            .and_then(|from| chain.get(from + 1..))
            .unwrap_or_default();
        let is_valid = rest.iter().take_while(|it| is_code(**it));
        self.addresses
            .extend(is_valid.take(MOST_FRAMES - self.addresses.len()));
        self
    }
}

/// Returns the sections of a file without any unwind tables.
fn no_sections() -> ExplicitModuleSectionInfo<Section> {
    ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: None,
        text: None,
        stubs_svma: None,
        stub_helper_svma: None,
        got_svma: None,
        unwind_info: None,
        eh_frame_svma: None,
        eh_frame: None,
        eh_frame_hdr_svma: None,
        eh_frame_hdr: None,
        debug_frame: None,
        text_segment_svma: None,
        text_segment: None,
    }
}

/// Returns a word of the copied stack; `None` if it was not copied.
fn word_at(stack: &SeenStack, at: u64) -> Option<u64> {
    let from = usize::try_from(at.checked_sub(stack.registers.sp)?).ok()?;
    let bytes = stack
        .copied
        .get(from..from.checked_add(size_of::<u64>())?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(target_arch = "x86_64")]
fn native(registers: Registers, _highest: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.ip, registers.sp, registers.fp)
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(registers: &UnwindRegsNative) -> u64 {
    registers.bp()
}

/// Converts registers for the unwinder, which takes signatures (pointer authentication) from return addresses. They are in
/// the bits above those of addresses, how many the kernel is configured for (`Documentation/arch/arm64/memory.rst` of Linux):
/// all of the highest address of code are bits of addresses.
#[cfg(target_arch = "aarch64")]
fn native(registers: Registers, highest: u64) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(highest.max(1));
    UnwindRegsNative::new_with_ptr_auth_mask(mask, registers.lr, registers.sp, registers.fp)
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(registers: &UnwindRegsNative) -> u64 {
    registers.fp()
}
