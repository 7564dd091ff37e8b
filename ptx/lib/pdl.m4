divert(-1)
m4_once(<|pdl.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// Programmatic dependent launch.  Without the launch attribute both do nothing.

// Usage: pdl_wait
// Until all earlier grids of the stream have completed and their writes are visible.
macro(<|pdl_wait|>, 0, <|
griddepcontrol.wait;|>)

// Usage: pdl_wait_if(PREDICATE)
// The same in the threads whose PREDICATE holds; waiting again later costs nothing.
macro(<|pdl_wait_if|>, 1, <|
@$1 griddepcontrol.wait;|>)

// Usage: pdl_trigger_if(PREDICATE)
// Lets dependent grids start once every CTA did this or ended.  One thread is enough, and
// repeating is harmless.  By itself it orders no memory: dependents wait before they
// read, or a release fence stands in front of it (up_proj).
macro(<|pdl_trigger_if|>, 1, <|
@$1 griddepcontrol.launch_dependents;|>)

divert(0)dnl
