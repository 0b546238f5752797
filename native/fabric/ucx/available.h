// Whether this build has UCX: only where its headers were there when it was made. The library itself is looked for when
// a program asks for it (libucp.h).
#pragma once

#if __has_include(<ucp/api/ucp.h>)
#define NBC_HAS_UCX 1
#else
#define NBC_HAS_UCX 0
#endif
