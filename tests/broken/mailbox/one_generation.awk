# SPDX-License-Identifier: Apache-2.0
#
# The ring has one generation: a rank that is ahead stores over words that another has not
# read yet, or that it then re-arms.
#
# @family up_proj lamport_copy
# @scenario held

BEGIN { want = 1 }
/and\.b32 generation, step, 1;/ { replace("step, 1;", "step, 0;"); next }
{ print }
