"""Drives a scheduler of Ray Tune with fake trials, without a cluster, and writes the trace of its decisions."""

from ray.train._internal.session import _FutureTrainingResult
from ray.tune.experiment import Trial

from trace_format import config_text

LETTERS = {"CONTINUE": "C", "PAUSE": "P", "STOP": "S", "NOOP": "N"}
STATES = {Trial.PENDING: "P", Trial.RUNNING: "R", Trial.PAUSED: "U", Trial.TERMINATED: "X", Trial.ERROR: "F"}


class FakeSave(_FutureTrainingResult):
    def __init__(self, sim, trial, checkpoint):
        self.sim, self.trial, self.checkpoint = sim, trial, checkpoint

    def resolve(self, block=True):
        self.sim.note_saved(self)
        if self.checkpoint is None:
            return None
        return type("Result", (), {"metrics": {}, "checkpoint": self.checkpoint})()


class Box:
    pass


class FakeTrial:
    def __init__(self, number, config, level):
        self.number = number
        self.trial_id = str(number)
        self.status = Trial.PENDING
        self.config = config
        self.experiment_tag = str(number)
        self.evaluated_params = {}
        self.last_result = {}
        self.saving = None  # the FakeSave of a pause
        self.checkpoint_manager = Box()
        self.checkpoint_manager.checkpoint_config = Box()
        self.checkpoint_manager.checkpoint_config.num_to_keep = None
        self.checkpoint_manager._latest_checkpoint_result = None
        self.run_metadata = Box()
        self.run_metadata.checkpoint_manager = self.checkpoint_manager
        self.time = 0
        self.level = level

    @property
    def is_saving(self):
        return self.saving is not None

    @property
    def temporary_state(self):
        box = Box()
        box.saving_to = self.saving
        return box

    @property
    def checkpoint(self):
        latest = self.checkpoint_manager._latest_checkpoint_result
        return latest.checkpoint if latest else None

    def is_finished(self):
        return self.status in (Trial.ERROR, Trial.TERMINATED)

    def set_config(self, config):
        self.config = config

    def set_experiment_tag(self, tag):
        self.experiment_tag = tag

    def __repr__(self):
        return self.trial_id


class Controller:
    """The part of Ray's TuneController that schedulers call."""

    def __init__(self, sim):
        self.sim = sim
        self.search_alg = Box()
        self.search_alg.searcher = Box()
        self.search_alg.searcher.on_pause = lambda trial: sim.log.append(f"p{trial}")
        self.search_alg.searcher.on_unpause = lambda trial: sim.log.append(f"r{trial}")

    def get_trials(self):
        return list(self.sim.trials)

    def get_live_trials(self):
        return [trial for trial in self.sim.trials if not trial.is_finished()]

    def stop_trial(self, trial):
        if trial.is_finished():
            return
        self.sim.log.append(f"s{trial}")
        if trial.status == Trial.RUNNING:
            self.sim.scheduler.on_trial_complete(self, trial, trial.last_result)
        else:
            self.sim.scheduler.on_trial_remove(self, trial)
        trial.status = Trial.TERMINATED
        trial.saving = None

    def pause_trial(self, trial, should_checkpoint=True):
        assert not should_checkpoint
        trial.status = Trial.PAUSED
        trial.saving = None

    def _schedule_trial_save(self, trial, result=None):
        if trial.status != Trial.RUNNING:
            return None
        if trial.saving:
            return trial.saving  # the checkpoint of its pause; Ray saves the same state once more
        self.sim.log.append(f"v{trial}")
        save = FakeSave(self.sim, trial, self.sim.new_checkpoint())
        self.sim.saves.append(save)
        return save


class Sim:
    """One scheduler and its trials. Every call that reaches the scheduler becomes a line of the trace."""

    def __init__(self, scheduler, out, rng, time_attr="t", metric="m"):
        self.scheduler, self.out, self.rng = scheduler, out, rng
        self.time_attr, self.metric = time_attr, metric
        self.controller = Controller(self)
        self.trials = []   # in the order of Ray's list: a retry moves to the end
        self.count = 0     # of trials
        self.log = []      # commands of the present call
        self.saves = []    # saves that the present call scheduled
        self.resolved = []  # saves of pauses that the present call resolved
        self.checkpoints = 0
        self.lost_checkpoints = 0.0  # probability that a save yields nothing
        self.slow_saves = 0.0        # probability that a pause is not saved at once
        self.decisions = 0

    def new_checkpoint(self):
        if self.rng.random() < self.lost_checkpoints:
            return None
        self.checkpoints += 1
        return self.checkpoints

    def note_saved(self, save):
        if save is save.trial.saving:
            self.resolved.append(save)

    def write(self, *words):
        print(*words, file=self.out)

    def commands(self):
        words, self.log = self.log, []
        return words

    def running(self):
        return [t for t in self.trials if t.status == Trial.RUNNING and not t.is_saving]

    def add(self, config=None):
        trial = FakeTrial(self.count, dict(config or {}), self.rng.random())
        self.count += 1
        self.trials.append(trial)
        before = config_text(trial.config)
        self.scheduler.on_trial_add(self.controller, trial)
        self.write("A", trial.number, before, ">", config_text(trial.config))
        return trial

    def set_state(self, trial, status):
        trial.status = status
        self.write("T", trial.number, STATES[status])

    def save_done(self, save):
        if save.checkpoint is not None:
            latest = Box()
            latest.checkpoint = save.checkpoint
            save.trial.checkpoint_manager._latest_checkpoint_result = latest
        self.write("V", save.trial.number, save.checkpoint or 0)

    def end_pause(self, trial):
        """The checkpoint of a pause is saved."""
        save, trial.saving = trial.saving, None
        self.save_done(save)
        self.set_state(trial, Trial.PAUSED)

    def result(self, trial, value, drop=False):
        result = {self.time_attr: trial.time, self.metric: value}
        if drop:
            del result[self.rng.choice([self.time_attr, self.metric])]
        return result

    def fields(self, result):
        return [format(result[key], ".12g") if key in result else "-" for key in (self.time_attr, self.metric)]

    def report(self, trial, value, drop=False):
        result = self.result(trial, value, drop)
        # Both sides see the value of the text.
        fields = self.fields(result)
        for key, text in zip((self.time_attr, self.metric), fields):
            if key in result:
                result[key] = float(text)
        decision = self.scheduler.on_trial_result(self.controller, trial, dict(result))
        trial.last_result = result
        self.decisions += 1
        extra = [word if not isinstance(word, tuple) else word[0] for word in self.commands()]
        self.write("R", trial.number, *fields, ">", LETTERS[decision], *extra)
        saves, self.saves = self.saves, []
        for save in saves:
            self.save_done(save)
        resolved, self.resolved = self.resolved, []
        for save in resolved:
            if save is save.trial.saving:
                self.end_pause(save.trial)
        if decision == "PAUSE":
            save = FakeSave(self, trial, self.new_checkpoint())
            if self.rng.random() < self.slow_saves:
                trial.saving = save
                self.write("T", trial.number, "Z")
            else:
                self.save_done(save)
                self.set_state(trial, Trial.PAUSED)
        elif decision == "STOP":
            self.complete(trial)
        return decision

    def complete(self, trial, result=None):
        result = trial.last_result if result is None else result
        self.scheduler.on_trial_complete(self.controller, trial, dict(result))
        trial.status = Trial.TERMINATED
        self.write("C", trial.number, *self.fields(result), ">", *self.commands())

    def fail(self, trial, retry):
        self.scheduler.on_trial_error(self.controller, trial)
        self.write("E", trial.number, ">", *self.commands())
        if not retry:
            self.set_state(trial, Trial.ERROR)
            return
        trial.status = Trial.PENDING
        self.trials.remove(trial)
        self.trials.append(trial)
        self.scheduler.on_trial_add(self.controller, trial)
        self.write("Y", trial.number, ">", config_text(trial.config))

    def remove(self, trial):
        self.scheduler.on_trial_remove(self.controller, trial)
        trial.status = Trial.TERMINATED
        trial.saving = None
        self.write("D", trial.number, ">", *self.commands())

    def choose(self):
        trial = self.scheduler.choose_trial_to_run(self.controller)
        self.write("N", ">", "-" if trial is None else trial.number, *self.commands())
        self.decisions += 1
        if trial is not None:
            self.set_state(trial, Trial.RUNNING)
        return trial

    def forget_finished(self):
        """Ray's own code walks the list of all trials; dropping finished ones does not change a decision."""
        self.trials = [trial for trial in self.trials if not trial.is_finished()]
