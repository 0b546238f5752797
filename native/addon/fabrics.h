// Which fabric a world gets: by its transport and by where the ranks of its job are.
#pragma once
#include <memory>
#include <string>

#include "addon/opening.h"
#include "fabric/fabric.h"
#include "fabric/tcp/socket.h"
#include "job/segment.h"

namespace nbc::addon {

// Where a rank listens, if others reach it over sockets.
struct Listeners {
  tcp::Socket first;
  tcp::Socket cards;  // for those that connect by verbs, where others are reached by TCP
  explicit operator bool() const { return static_cast<bool>(first); }
};

// `segment`: what the ranks of this machine share; null: nothing. Throws FabricError.
std::unique_ptr<Fabric> make_fabric(const Opening& opening, Listeners listeners, std::shared_ptr<job::Segment> segment);

// What a rank tells about the port that it would take.
struct VerbsOffer {
  std::string device;  // its name
  std::string text;    // verbs/offer.h
};
// Opens the device, and tries what a rank needs of it. Throws FabricError.
VerbsOffer offer_verbs(const verbs::VerbsOptions& options);

}  // namespace nbc::addon
