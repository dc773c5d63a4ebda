#include "cli/commands/tune/tune_flags.h"

#include <CLI/CLI.hpp>

namespace mobula::internal::cli {
namespace {

class TuneGrammar {
 public:
  TuneGrammar(CLI::App& tune, TuneFlags& flags) : tune_(tune), flags_(flags) {}

  CLI::App& add(const std::string& name, const std::string& about) {
    CLI::App& command = *tune_.add_subcommand(name, about);
    command.add_option("--storage", flags_.storage,
                       "Directory of the experiments (default: $MOBULA_TUNE_STORAGE, or "
                       "~/mobula_tune)");
    return command;
  }
  CLI::App& add_for_experiment(const std::string& name, const std::string& about) {
    CLI::App& command = add(name, about);
    command.add_option("name", flags_.name, "Name of the experiment")->required();
    return command;
  }
  void add_trial(CLI::App& command) {
    command.add_option("trial", flags_.trial, "Number of the trial")
        ->required()
        ->check(CLI::NonNegativeNumber);
  }

 private:
  CLI::App& tune_;
  TuneFlags& flags_;
};

void add_file_commands(TuneGrammar& grammar, TuneFlags& flags, const TuneSharedOptions& shared) {
  grammar.add_for_experiment("stop", "Stop an experiment, or one of its trials")
      .add_option("trial", flags.trial, "Number of the trial (default: the experiment)")
      ->check(CLI::NonNegativeNumber);
  grammar.add_for_experiment("resume", "Start the recorded program again, to continue");

  shared.add_output(
      grammar.add_for_experiment("replay", "Compare recorded decisions with those of the program"));

  CLI::App& plot = grammar.add_for_experiment("plot", "Write an HTML page with plots");
  plot.add_option("--output", flags.file, "File of the page, or - for stdout (default: NAME.html)");

  CLI::App& export_trials = grammar.add_for_experiment("export", "Export trials and reports");
  export_trials.add_option("--format", flags.format, "csv, jsonl, tensorboard, or optuna")
      ->required()
      ->check(CLI::IsMember({"csv", "jsonl", "tensorboard", "optuna"}));
  export_trials.add_option("--output", flags.file,
                           "File, or - for stdout; for tensorboard a directory (default: NAME.csv, "
                           "NAME.jsonl, NAME-tensorboard, or NAME.db)");

  CLI::App& import_study = grammar.add("import", "Import a study of another program");
  import_study.add_option("source", flags.source, "optuna")
      ->required()
      ->check(CLI::IsMember({"optuna"}));
  import_study.add_option("file", flags.file, "SQLite file of the study")->required();
  import_study.add_option("--study", flags.study,
                          "Name of the study (default: the only study of the file)");
  import_study.add_option("--name", flags.name,
                          "Name of the experiment (default: name of the study)");
  shared.add_output(import_study);
}

}  // namespace

void add_tune_commands(CLI::App& app, TuneFlags& flags, const TuneSharedOptions& shared) {
  CLI::App& tune =
      *app.add_subcommand("tune", "Inspect, plot, and export hyper-parameter experiments");
  tune.require_subcommand(1);
  TuneGrammar grammar(tune, flags);

  CLI::App& list = grammar.add("list", "List experiments of a storage directory");
  shared.add_output(list);
  shared.add_table(list);

  CLI::App& status = grammar.add_for_experiment("status", "Show the progress of an experiment");
  shared.add_output(status);
  shared.add_watch(status);

  CLI::App& trials = grammar.add_for_experiment("trials", "List trials of an experiment");
  shared.add_output(trials);
  shared.add_table(trials);
  shared.add_filter(trials);
  trials
      .add_option("--limit", flags.rows, "Maximum number of rows, the latest ones (default: all)")
      ->check(CLI::Range(1, 1'000'000'000));

  CLI::App& show = grammar.add_for_experiment(
      "show", "Show a trial with its attempts, reports, and checkpoints");
  grammar.add_trial(show);
  shared.add_output(show);

  CLI::App& best = grammar.add_for_experiment("best", "List the best trials");
  best.add_option("-n,--number", flags.count, "Number of trials (default: 5)")
      ->check(CLI::Range(1, 1'000'000));
  shared.add_output(best);
  shared.add_table(best);

  CLI::App& explain =
      grammar.add_for_experiment("explain", "Explain why a trial ended, or why it waits");
  grammar.add_trial(explain);
  shared.add_output(explain);

  add_file_commands(grammar, flags, shared);
}

}  // namespace mobula::internal::cli
