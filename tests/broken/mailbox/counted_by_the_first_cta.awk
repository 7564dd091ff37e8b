# SPDX-License-Identifier: Apache-2.0
#
# The first CTA of the reader advances the count of steps: others may not have read it.
#
# @family lamport_copy

BEGIN { want = 1 }
/setp\.eq\.u32 last_cta, ticket, last;/ { replace("ticket, last", "ticket, 0"); next }
{ print }
