// What the system limits of the memory that ranks share, and what to tell where a limit is met.
#pragma once
#include <cstddef>
#include <string>

#include "fabric/fabric.h"

namespace nbc::job {

// Of the address space of this process (ulimit -v); SIZE_MAX: there is no limit.
size_t address_space_limit();
// How many bytes the addresses of this system reach, whatever the limit: 2^47 where they have 48 bits, 2^39 on some
// arm64, 2^38 on some riscv64. SIZE_MAX: unknown.
size_t address_space_width();
// Of a file that this process makes longer (ulimit -f), also of one without a name; SIZE_MAX: there is no limit.
size_t file_size_limit();
// What this process has mapped: the first number of /proc/self/statm, in pages.
size_t address_space_in_use();

// Why `bytes` of address space were refused, and what to do: where there is a limit, it is that. Reads errno.
FabricError no_address_space(const char* what, size_t bytes);
FabricError no_file_size(size_t bytes);
// memfd_create() was refused. Reads errno.
FabricError no_anonymous_file();

// Whether the system can run out of pages for this file before it is out of memory: a file system with a size, or a
// kernel that counts memory strictly (vm.overcommit_memory=2). A thread that touches such a page then gets SIGBUS.
bool pages_may_run_out(int fd);
// Takes the pages now, so that a touch of them cannot fail. False with errno. What is taken already stays as it is.
bool reserve_pages(int fd, size_t offset, size_t bytes);
// Why reserve_pages() has failed. Reads errno.
std::string why_no_pages(size_t bytes);

}  // namespace nbc::job
