// The resources of a trial as a placement group and as options of actors: an empty bundle 0 is
// dropped, and the actor of the trial then takes nothing from the first bundle of workers.
// Thread: any (functions of their arguments).
#pragma once

#include <vector>

#include <mobula/options.h>
#include <mobula/tune/resources.h>

namespace mobula::internal::tune {

// The bundles of the placement group.
std::vector<Resources> placed_bundles(const mobula::tune::PlacementGroupFactory& resources);
// The index of the first bundle of workers in it.
int first_worker_bundle(const mobula::tune::PlacementGroupFactory& resources);
// Options of an actor that fills a bundle.
ActorOptions options_of_bundle(const PlacementGroup& group, int index, const Resources& bundle);
// Options of the actor of the trial.
ActorOptions options_of_trial(const PlacementGroup& group,
                              const mobula::tune::PlacementGroupFactory& resources,
                              const Environment& env);

}  // namespace mobula::internal::tune
