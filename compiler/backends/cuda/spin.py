"""A kernel that takes a given time."""

SPIN = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry flowloom_spin(.param .u64 nanoseconds)
{
  .reg .u64 %r<4>;
  .reg .pred %p;
  ld.param.u64 %r0, [nanoseconds];
  mov.u64 %r1, %globaltimer;
again:
  mov.u64 %r2, %globaltimer;
  sub.u64 %r3, %r2, %r1;
  setp.lt.u64 %p, %r3, %r0;
  @%p bra again;
  ret;
}
\0"""
"""A kernel in PTX, which the driver compiles for any device."""
