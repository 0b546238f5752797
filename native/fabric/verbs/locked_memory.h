// Why memory could not be registered, in words that help: nearly always it is the limit of locked memory.
#pragma once
#include <cstddef>
#include <string>

namespace nbc::verbs {

// `error`: errno of the registration that failed.
std::string registration_failure(size_t bytes, int error);

}  // namespace nbc::verbs
