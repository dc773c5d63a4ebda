// An invalid plugin is rejected with a reason. A later failure of a plugin affects only its
// transfers.
#include "transport/bytes_fixture.h"
#include "transport/loop_fixture.h"
#include "transport/tensor/node.h"
#include "transport/tensor/plugin/plugin_transport.h"

namespace mobula::internal {
namespace {

std::string faulty(const std::string& fault) {
  return MOBULA_BINARY_DIR "/lib/mobula/mobula_transport_faulty_" + fault + ".so";
}
std::string carried() { return direct_test::plugin_of(direct_test::Way::carried); }

TEST(TransportPlugins, RejectsInvalidPluginsWithReason) {
  const std::vector<std::tuple<std::string, ErrorCode, std::string>> wrong{
      {"/nowhere/at_all.so", ErrorCode::not_found, "/nowhere/at_all.so"},
      {faulty("symbol"), ErrorCode::invalid_argument, "no function mobula_open_transport_plugin"},
      {faulty("version"), ErrorCode::permission_denied, "version 2; this program speaks 1"},
      {faulty("size"), ErrorCode::invalid_argument, "bytes, and needs"},
      {faulty("name"), ErrorCode::invalid_argument, "its name"},
      {faulty("messages"), ErrorCode::invalid_argument, "1000 bytes at most"},
      {faulty("function"), ErrorCode::invalid_argument, "a function of its table is missing"},
      {faulty("no_table"), ErrorCode::invalid_argument, "no table"},
      {faulty("throws"), ErrorCode::invalid_argument, "it threw: no luck today"},
  };
  for (const auto& [path, code, text] : wrong) {
    const auto opened = TransportPlugin::open(path);
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code, code) << path;
    EXPECT_NE(opened.error().text.find(text), std::string::npos) << opened.error().text;
  }
}

TEST(TransportPlugins, OpensEachListedPluginOnce) {
  const std::string directory = MOBULA_BINARY_DIR "/lib/mobula";
  const auto opened = open_transport_plugins(
      carried() + "::mobula_transport_carried.so:/nowhere:" + faulty("version"), directory);
  ASSERT_EQ(opened.size(), 4u);
  ASSERT_TRUE(opened[0].plugin) << opened[0].plugin.error().text;
  EXPECT_EQ(opened[0].plugin->name(), "carried");
  EXPECT_EQ(opened[1].path, carried()) << "without a slash: in the plugin directory";
  EXPECT_EQ(opened[1].plugin.error().code, ErrorCode::already_exists);
  EXPECT_EQ(opened[2].plugin.error().code, ErrorCode::not_found);
  EXPECT_EQ(opened[3].plugin.error().code, ErrorCode::permission_denied);
  EXPECT_TRUE(open_transport_plugins("", directory).empty());
}

TEST(TransportPlugins, LibraryOrDeviceMissing_IsUnavailable) {
  const auto plugin = TransportPlugin::open(faulty("no_library")).value();
  const Availability probed = PluginTransport::probe(plugin);
  EXPECT_FALSE(probed.available);
  EXPECT_EQ(probed.reason, "faulty: libfaulty.so.1 finds no device");
  const auto loop = make_loop();
  const auto made = PluginTransport::create(*loop, ProcessId::of(1), plugin);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unavailable);
  EXPECT_TRUE(PluginTransport::probe(TransportPlugin::open(carried()).value()).available);
}

// Both ends in this process. Returns the end of the pull.
TransferEnd pull_by(const std::string& path, std::vector<std::byte>& target) {
  const auto loop = make_loop();
  const auto plugin = TransportPlugin::open(path).value();
  const auto holder = PluginTransport::create(*loop, ProcessId::of(1), plugin).value();
  const auto receiver = PluginTransport::create(*loop, ProcessId::of(2), plugin).value();
  const std::vector<std::byte> source(target.size(), std::byte{7});
  Offer offer;
  offer.transfer = TransferId::of(1);
  offer.to = {ProcessId::of(2), 1};
  offer.regions.push_back({.bytes = source, .location = {}, .file = std::nullopt});
  offer.peer = {ProcessId::of(2), receiver->endpoint(), true};
  Blob ticket;
  holder->offer(std::move(offer), [&](const Result<Blob>& made) { ticket = made.value(); });
  receiver->open({ProcessId::of(1), 1}, {ProcessId::of(1), holder->endpoint(), true},
                 monotonic_now() + 10s, [](const Result<void>& opened) { opened.value(); });
  EXPECT_TRUE(turn_until(*loop, [&] { return !ticket.empty(); }));
  std::optional<TransferEnd> end;
  Pull pull;
  pull.transfer = TransferId::of(1);
  pull.from = {ProcessId::of(1), 1};
  pull.ticket = ticket;
  pull.targets.push_back({target, {}});
  receiver->pull(std::move(pull), [&](const TransferEnd& report) { end = report; });
  EXPECT_TRUE(turn_until(*loop, [&] { return end.has_value(); }));
  return *end;
}

TEST(TransportPlugins, PluginThrows_FailsOnlyItsTransfers) {
  std::vector<std::byte> target(3'000'000);
  const TransferEnd failed = pull_by(faulty("throws_later"), target);
  ASSERT_FALSE(failed.result);
  EXPECT_EQ(failed.result.error().code, ErrorCode::unavailable);
  EXPECT_NE(failed.result.error().text.find("threw: out of luck"), std::string::npos)
      << failed.result.error().text;
  EXPECT_EQ(target[0], std::byte{});
  EXPECT_TRUE(pull_by(carried(), target).result);
  EXPECT_EQ(target, std::vector<std::byte>(target.size(), std::byte{7}));
}

TEST(TransportPlugins, RejectsEndpointOfAnotherPlugin) {
  const auto loop = make_loop();
  const auto one =
      PluginTransport::create(*loop, ProcessId::of(1), TransportPlugin::open(carried()).value())
          .value();
  const auto other = PluginTransport::create(*loop, ProcessId::of(2),
                                             TransportPlugin::open(faulty("throws_later")).value())
                         .value();
  const auto cost = one->reach({ProcessId::of(2), other->endpoint(), true}, {}, {});
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().text, "carried: the endpoint of the plugin 'faulty'");
  EXPECT_EQ(one->reach({ProcessId::of(1), one->endpoint(), false}, {}, {}).error().code,
            ErrorCode::permission_denied);
}

}  // namespace
}  // namespace mobula::internal
