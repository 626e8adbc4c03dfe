// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "include/maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
