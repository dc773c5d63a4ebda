// UCX as a carrier of messages (mobula/transport_plugin.h): the calls of the host's thread; see
// ucx_engine.h.
#include "mobula/transport_plugin.h"
#include "transport/plugins/ucx_engine.h"

struct mobula_carrier : mobula::plugins::EngineCarrier<mobula::plugins::of_ucx::Engine> {
  using EngineCarrier::EngineCarrier;
};

namespace {

constexpr mobula_transport_plugin table =
    mobula::plugins::table_of("ucx", mobula::plugins::of_ucx::Engine::max_message);

}  // namespace

const mobula_transport_plugin* mobula_open_transport_plugin(void) { return &table; }
