// Exposed memory that JavaScript has, by its address.
#pragma once
#include <cstddef>
#include <memory>

namespace nbc::addon {

// What keeps a block of alloc() allocated, if this memory is in one; else null.
std::shared_ptr<void> keeper_of_exposed(const std::byte* data, size_t bytes);

}  // namespace nbc::addon
