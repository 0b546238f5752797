// Whether this build has verbs: only where the headers of libibverbs were there when it was made. The library itself is
// looked for when a program asks for it (ibverbs.h).
#pragma once

#if __has_include(<infiniband/verbs.h>)
#define NBC_HAS_VERBS 1
#else
#define NBC_HAS_VERBS 0
#endif
