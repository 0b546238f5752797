// What a rank tells about its port before it opens, where ranks meet through a directory: a text that all ranks read,
// so that all choose the same network before the first message.
#pragma once
#include <string>

#include "fabric/verbs/reach.h"

namespace nbc::verbs {

std::string offer_of(const Port& port);

// Why two ranks with these offers do not reach each other by verbs; empty: they do. Both come to the same answer.
// `peer` and `device`: what the text calls the other rank, and the port of this one.
std::string why_not_by_verbs(const std::string& mine, const std::string& theirs, const std::string& peer,
                             const std::string& device);

}  // namespace nbc::verbs
