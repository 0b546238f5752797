// Which fabric a world gets: by its transport and by where the ranks of its job are.
#pragma once
#include <memory>
#include <string>

#include "addon/opening.h"
#include "fabric/fabric.h"
#include "fabric/tcp/socket.h"
#include "job/segment.h"

namespace nbc::addon {

// `listener`: where this rank listens, if any rank is reached by TCP. `segment`: what the ranks of this machine share;
// null: nothing. Throws FabricError.
std::unique_ptr<Fabric> make_fabric(const Opening& opening, tcp::Socket listener,
                                    std::shared_ptr<job::Segment> segment);

// What a rank tells about the port that it would take.
struct VerbsOffer {
  std::string device;  // its name
  std::string text;    // verbs/offer.h
};
// Opens the device, and tries what a rank needs of it. Throws FabricError.
VerbsOffer offer_verbs(const verbs::VerbsOptions& options);

}  // namespace nbc::addon
