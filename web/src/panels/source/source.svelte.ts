// SPDX-License-Identifier: Apache-2.0
// What the source panel knows: the original, the variants, the text that is edited and whether it was built.
// Not here: the editor (editor.ts), where drafts lie (drafts.ts), what it looks like (../Source.svelte).
import { asCallError, call, CallError } from '../../api/client';
import type { Built, Candidate, EventRow, Found, JobRow, Variant } from '../../api/types';
import type { OwnJob, SessionStore } from '../../state/session.svelte';
import { DraftStore, kOriginal } from './drafts';
import { fromAnswer, parseMessages, type CompilerMessage } from './messages';
import { nameProblem, nextName, stemOf } from './names';
import { argumentsOf, endingOf, formOf, hasLaunch, languageOf, problemsOf, sameForm, type Api, type BuildForm } from './options';
import { originsOf, treeOf, type Origin } from './variants';

export interface Notice {
  tone: 'good' | 'plain' | 'warn';
  text: string;
}

interface Original {
  text: string;
  file: string;
  hash: string;
  /** Bytes that are not in `text`: such a text is not edited, since what is built would lack its end. */
  leftOut: number;
  /** It is the captured SPIR-V's assembly, since no source is known. */
  assembly: boolean;
}

const kKeepAfter = 300;
const kMostEvents = 4000;
const kMostCompared = 200;

const plainLines = (text: string) => text.replace(/\r\n?/g, '\n');

export class SourceModel {
  original = $state.raw<Original>();
  originalProblem = $state.raw<CallError>();
  variants = $state.raw<Variant[]>([]);
  variantsProblem = $state.raw<CallError>();
  origins = $state.raw<Map<string, Origin>>(new Map());
  ready = $state(false);

  base = $state(kOriginal);
  /** Counts texts that were opened: the editor takes the next one when it changes. */
  opened = $state(0);
  text = $state('');
  form = $state.raw<BuildForm>({});
  typedName = $state('');
  baseText = $state('');
  baseForm = $state.raw<BuildForm>({});
  baseProblem = $state.raw<CallError>();
  opening = $state(false);
  /** When the draft that is shown was typed; 0: it is no draft from before. */
  restoredAt = $state(0);
  draftBases = $state.raw<ReadonlySet<string>>(new Set());
  unkept = $state(false);

  job = $state.raw<OwnJob<'session.build'>>();
  messages = $state.raw<CompilerMessage[]>([]);
  builtAs = $state('');
  notice = $state.raw<Notice>();
  problem = $state.raw<CallError>();
  last = $state.raw<Built>();
  /** A variant that has this text and these options already. */
  equal = $state.raw<Variant>();

  searching = $state.raw<OwnJob<'session.search'>>();
  found = $state.raw<Found>();
  findProblem = $state.raw<CallError>();

  readonly #drafts: DraftStore;
  readonly #texts = new Map<string, string>();
  #turn = 0;
  #asking = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #gone = false;
  #eventsRead: Promise<void> | undefined;

  constructor(
    readonly session: SessionStore,
    drafts?: DraftStore,
  ) {
    this.#drafts = drafts ?? new DraftStore(session.id);
    this.draftBases = new Set(this.#drafts.bases());
  }

  get api(): Api {
    const api = this.session.summary?.capture?.device?.api;
    return api === 'cuda' || api === 'hip' ? api : 'vulkan';
  }

  get captured(): boolean {
    return this.session.summary?.capture !== undefined;
  }

  get variant(): Variant | undefined {
    return this.variants.find((v) => v.id === this.base);
  }

  /** session.build's word; undefined: this text is not built here. */
  get language(): string | undefined {
    if (this.variant?.language) return this.variant.language;
    if (this.original?.assembly) return 'spirv';
    return languageOf(this.original?.file ?? '', this.api);
  }

  get dirty(): boolean {
    return this.text !== this.baseText || !sameForm(this.form, this.baseForm, this.api);
  }

  get nodes() {
    return treeOf(this.variants, this.origins, this.api);
  }

  get defaultName(): string {
    const from = this.variant?.name ?? stemOf(this.original?.file || this.session.row?.dispatch?.kernel || 'variant');
    return nextName(from, this.variants.map((v) => v.name));
  }

  get name(): string {
    return this.typedName.trim() || this.defaultName;
  }

  get nameProblem(): string {
    const name = this.typedName.trim();
    if (name !== '' && this.variants.some((v) => v.name === name && v.id !== this.base)) return 'There is a variant of that name.';
    return nameProblem(name);
  }

  /** Why the button does not build; empty: it does. */
  get cannotBuild(): string {
    if (!this.captured) return 'There is no capture yet: capture the dispatch first.';
    if (!this.session.open) return 'The session is closed.';
    if (this.job) return 'A build is at work.';
    if (this.session.busy) return `The session is busy${this.session.job ? ` with ${this.session.job.verb.replace('session.', '')}` : ''}; it can build when that has ended.`;
    if (this.baseProblem) return 'The text is not there.';
    if (this.language === undefined && !this.launchOnly) return `A text of this kind (${this.original?.file.split('/').pop() ?? 'no source'}) is not built here.`;
    if (this.nameProblem) return this.nameProblem;
    if (Object.keys(problemsOf(this.form, this.api)).length > 0) return 'Some build options will not do: see there.';
    return '';
  }

  /** Only the launch differs from what was captured: no text is compiled. */
  get launchOnly(): boolean {
    return (
      hasLaunch(this.form, this.api) &&
      Object.keys(argumentsOf(this.form, this.api)).every((k) => kLaunchKeys.has(k)) &&
      this.text === plainLines(this.original?.text ?? '')
    );
  }

  async load(variant: string): Promise<void> {
    await Promise.all([this.loadOriginal(), this.loadVariants()]);
    if (this.#gone) return;
    if (!this.original && this.variants.some((v) => v.language === 'spirv')) await this.#takeAssembly().catch(() => undefined);
    const drafts = [...this.#drafts.bases()].filter((b) => b === kOriginal || this.variants.some((v) => v.id === b));
    const newest = drafts.sort((a, b) => (this.#drafts.get(b)?.at ?? 0) - (this.#drafts.get(a)?.at ?? 0))[0];
    const wanted = variant && this.variants.some((v) => v.id === variant || v.name === variant) ? variant : undefined;
    await this.open(wanted ? this.variants.find((v) => v.id === wanted || v.name === wanted)!.id : (newest ?? kOriginal));
    this.ready = true;
    void this.loadOrigins();
  }

  async loadOriginal(): Promise<void> {
    try {
      const answer = await this.session.call('session.status', { view: 'source' });
      if (this.#gone) return;
      const before = this.original;
      this.originalProblem = undefined;
      this.original = { text: answer.text ?? '', file: answer.file ?? '', hash: answer.hash ?? '', leftOut: answer.left_out_bytes ?? 0, assembly: false };
      if (!this.ready || this.base !== kOriginal || before?.hash === this.original.hash) return;
      if (!this.dirty) await this.open(kOriginal);
      else {
        this.baseText = plainLines(this.original.text);
        this.notice = { tone: 'warn', text: 'The source on disk has changed since you began to edit. Your text is kept; it is compared with the new one.' };
      }
    } catch (thrown) {
      const error = asCallError(thrown);
      if (!error.offline || !this.original) this.originalProblem = error;
      if (error.code === 'not_found' && !this.original?.assembly) this.original = undefined;
    }
  }

  async loadVariants(): Promise<void> {
    try {
      this.variants = await this.session.all<Variant>('variants');
      this.variantsProblem = undefined;
    } catch (thrown) {
      const error = asCallError(thrown);
      if (!error.offline || this.variants.length === 0) this.variantsProblem = error;
    }
    if (this.ready) void this.loadOrigins(true);
  }

  /** Who built what stands in the events: read once, then as they come. */
  loadOrigins(again = false): Promise<void> {
    if (again && this.variants.every((v) => this.origins.has(v.id))) return Promise.resolve();
    if (again) this.#eventsRead = undefined;
    this.#eventsRead ??= this.#readOrigins();
    return this.#eventsRead;
  }

  async #readOrigins(): Promise<void> {
    try {
      const events = await this.session.all<EventRow>('events', { most: kMostEvents });
      this.origins = originsOf(events, this.api);
    } catch {
      this.#eventsRead = undefined; // who built it stays unsaid until the next time
    }
  }

  /** Shows a text: the variant's, or the original, or the unbuilt edit of it. What is edited now is kept. */
  async open(base: string): Promise<void> {
    this.keep();
    const turn = ++this.#turn;
    this.opening = true;
    let text = plainLines(this.original?.text ?? '');
    let form: BuildForm = {};
    let problem = this.original?.leftOut ? tooLong('the source', this.original.leftOut) : undefined;
    const variant = this.variants.find((v) => v.id === base);
    try {
      if (variant) {
        await this.loadOrigins();
        form = this.origins.get(base)?.form ?? {};
        if (variant.source_file) {
          const answer = await this.session.call('session.status', { view: 'source', variant: base });
          text = plainLines(answer.text ?? '');
          problem = answer.left_out_bytes ? tooLong(variant.name, answer.left_out_bytes) : undefined;
        }
      }
    } catch (thrown) {
      problem = asCallError(thrown);
    }
    if (turn !== this.#turn || this.#gone) return;
    this.keep(); // what was typed meanwhile
    const draft = problem ? undefined : this.#drafts.get(base);
    this.base = base;
    this.baseText = text;
    this.baseForm = form;
    this.baseProblem = problem;
    this.text = draft?.text ?? text;
    this.form = draft?.form ?? form;
    this.typedName = draft?.name ?? '';
    this.restoredAt = draft && this.dirty ? draft.at : 0;
    this.messages = [];
    this.problem = undefined;
    this.notice = undefined;
    this.last = undefined;
    this.equal = undefined;
    this.opening = false;
    this.opened += 1;
    this.keep();
  }

  /** The connection is back: what could not be read is read now. */
  async again(): Promise<void> {
    if (!this.ready) return;
    if (this.problem?.offline) this.problem = undefined;
    if (this.originalProblem?.offline) await this.loadOriginal();
    if (this.variantsProblem?.offline) await this.loadVariants();
    if (this.baseProblem?.offline) await this.open(this.base);
  }

  edited(text: string): void {
    this.text = text;
    this.#later();
  }

  setForm(form: BuildForm): void {
    this.form = form;
    this.#later();
  }

  setName(name: string): void {
    this.typedName = name;
    this.#later();
  }

  /** Back to the text as it was built, or as it is on disk. */
  discard(): void {
    this.form = this.baseForm;
    this.typedName = '';
    this.text = this.baseText;
    this.restoredAt = 0;
    this.messages = [];
    this.keep();
  }

  #later(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.keep(), kKeepAfter);
  }

  /** Writes the draft down now. */
  keep(): void {
    clearTimeout(this.#timer);
    if (this.opened === 0 || this.baseProblem) return;
    const kept = this.#drafts.get(this.base);
    if (kept && kept.text === this.text && kept.name === this.typedName && sameForm(kept.form, this.form, this.api) && this.dirty) return; // typed when it was typed
    if (this.dirty) {
      this.unkept = !this.#drafts.put(this.base, { text: this.text, form: this.form, name: this.typedName, from: this.original?.hash ?? '', at: Date.now() });
    } else {
      this.#drafts.drop(this.base);
      this.unkept = false;
    }
    const bases = this.#drafts.bases();
    if (bases.length !== this.draftBases.size || bases.some((b) => !this.draftBases.has(b))) this.draftBases = new Set(bases);
  }

  /** `anyway`: a text that a variant already has makes another one, of the source file as it is now. */
  async build(anyway = false): Promise<void> {
    this.keep();
    this.notice = undefined;
    this.problem = undefined;
    this.equal = undefined;
    if (this.cannotBuild) {
      if (!this.job) this.notice = { tone: 'warn', text: this.cannotBuild };
      return;
    }
    if (!anyway && this.typedName.trim() === '') {
      if (this.#asking) return;
      this.#asking = true;
      const opened = this.opened;
      const equal = await this.#equal(this.text, this.form).finally(() => (this.#asking = false));
      if (opened !== this.opened || this.job) return;
      if (equal) {
        this.#stand(equal, { base: this.base, text: this.text, form: this.form, name: '' });
        this.equal = equal;
        this.notice = { tone: 'plain', text: `Nothing new was built: this text with these options is already ${equal.name} (${equal.id}).` };
        return;
      }
    }
    const sent = { base: this.base, text: this.text, form: this.form, name: this.name };
    const options = argumentsOf(sent.form, this.api, this.#sourceOptions());
    const language = this.language;
    const source = this.launchOnly || language === undefined ? {} : { source_text: sent.text, language };
    this.builtAs = sent.name + endingOf(language ?? '');
    const job = this.session.start('session.build', {
      ...source,
      name: sent.name,
      ...options,
      ...(this.api === 'vulkan' ? {} : { instructions: true }),
    });
    this.job = job;
    this.messages = [];
    try {
      this.#built(await job.answer, sent);
    } catch (thrown) {
      const error = asCallError(thrown);
      if (this.#gone) return;
      if (error.code === 'compile_failed') {
        this.messages = parseMessages(error.what);
        this.notice = { tone: 'warn', text: 'It does not compile. Nothing was added; your text is kept.' };
      } else if (error.cancelled) {
        this.notice = { tone: 'plain', text: 'The build was cancelled; your text is kept.' };
      } else {
        this.problem = error;
      }
    } finally {
      this.job = undefined;
    }
  }

  /** A file below the session's folders, as it is: source, SPIR-V, a cubin or a code object. With the options that are set. */
  async buildFile(path: string): Promise<void> {
    this.notice = undefined;
    this.problem = undefined;
    this.keep();
    const job = this.session.start('session.build', {
      source: path,
      ...argumentsOf(this.form, this.api, this.#sourceOptions()),
      ...(this.api === 'vulkan' ? {} : { instructions: true }),
    });
    this.job = job;
    try {
      const answer = await job.answer;
      if (this.#gone) return;
      if (!this.variants.some((v) => v.id === answer.variant.id)) this.variants = [...this.variants, answer.variant];
      await this.open(answer.variant.id);
      this.#say(answer);
    } catch (thrown) {
      const error = asCallError(thrown);
      if (!error.cancelled && !this.#gone) this.problem = error;
    } finally {
      this.job = undefined;
    }
  }

  /** A variant of this text and these options. Names are no difference: the server calls it equal only by its name. */
  async #equal(text: string, form: BuildForm): Promise<Variant | undefined> {
    if (this.variant && !this.dirty) return this.variant;
    await this.loadOrigins();
    const language = this.language;
    const asked = this.#asAsked(form);
    const candidates = this.variants
      .filter((v) => {
        const its = this.origins.get(v.id)?.form;
        return v.source_file !== '' && v.language === language && its !== undefined && sameForm(its, asked, this.api);
      })
      .slice(-kMostCompared);
    for (let i = 0; i < candidates.length; i += 8) {
      const some = candidates.slice(i, i + 8);
      const texts = await Promise.all(some.map((v) => this.#textOf(v.id).catch(() => undefined)));
      const at = texts.indexOf(text);
      if (at >= 0) return some[at];
    }
    return undefined;
  }

  async #textOf(id: string): Promise<string> {
    let text = this.#texts.get(id);
    if (text === undefined) {
      const answer = await this.session.call('session.status', { view: 'source', variant: id });
      text = answer.left_out_bytes ? '' : plainLines(answer.text ?? '');
      this.#texts.set(id, text);
    }
    return text;
  }

  /** The text that was edited is this variant's now. */
  #stand(v: Variant, sent: { base: string; text: string; form: BuildForm; name: string }): void {
    this.#drafts.drop(sent.base);
    if (this.base !== sent.base) return;
    this.base = v.id;
    this.baseText = sent.text;
    const same = sameForm(this.form, sent.form, this.api);
    this.baseForm = this.#asAsked(sent.form);
    if (same) this.form = this.baseForm;
    this.baseProblem = undefined;
    this.restoredAt = 0;
    if (this.typedName.trim() === sent.name) this.typedName = '';
    this.keep();
  }

  #built(answer: Built, sent: { base: string; text: string; form: BuildForm; name: string }): void {
    if (this.#gone) return;
    const v = answer.variant;
    if (!this.variants.some((one) => one.id === v.id)) this.variants = [...this.variants, v];
    if (!this.origins.has(v.id)) this.origins = new Map(this.origins).set(v.id, { by: 'page', job: answer.job ?? 0, form: this.#asAsked(sent.form) });
    this.#texts.set(v.id, sent.text);
    this.#stand(v, sent);
    this.#say(answer);
  }

  #say(answer: Built): void {
    const v = answer.variant;
    this.messages = fromAnswer(answer.messages);
    this.last = answer;
    this.notice = answer.existed
      ? { tone: 'plain', text: `Nothing new was built: this text with these options is already ${v.name} (${v.id}).` }
      : answer.same_code
        ? { tone: 'warn', text: `Built ${v.name}, but its code is the captured kernel’s, byte for byte: there is nothing to measure.` }
        : { tone: 'good', text: `Built ${v.name} with ${answer.compiler || 'no compiler: it was code already'}.` };
  }

  /** The form as the request of its build tells it: a set optimisation brings the source's target along. */
  #asAsked(form: BuildForm): BuildForm {
    return formOf(argumentsOf(form, this.api, this.#sourceOptions()), this.api);
  }

  /** Compile options of the selected source, which optimisation and target are set on top of. */
  #sourceOptions(): Record<string, unknown> {
    const file = this.original?.file;
    const candidate = this.found?.candidates.find((c) => c.file === file)?.options;
    const plain = this.variants.find((v) => v.target_file === file && Object.keys(this.origins.get(v.id)?.form ?? { unknown: '' }).length === 0)?.options;
    return { ...(candidate ?? this.session.row?.source?.options ?? plain ?? {}) };
  }

  async search(query: string, root: string): Promise<void> {
    this.findProblem = undefined;
    this.searching = this.session.start('session.search', { ...(query ? { query } : {}), ...(root ? { root } : {}) });
    try {
      this.found = await this.searching.answer;
      await this.loadOriginal();
    } catch (thrown) {
      const error = asCallError(thrown);
      if (!error.cancelled) this.findProblem = error;
    } finally {
      this.searching = undefined;
    }
  }

  /** What the last search of the session found, whoever made it. */
  async lastFound(): Promise<void> {
    if (this.found) return;
    try {
      const jobs = (await this.session.call('session.status', { view: 'jobs', limit: 200 })).items as JobRow[] | undefined;
      const search = jobs?.find((j) => j.kind === 'search' && j.state === 'done');
      if (!search || this.found) return;
      const result = (await call('job.wait', { job: search.id, wait_s: 0 })).job.result as Found | undefined;
      if (result && Array.isArray(result.candidates)) this.found ??= result;
    } catch {
      // It can be searched anew.
    }
  }

  async select(file: string, options?: Candidate['options']): Promise<void> {
    this.findProblem = undefined;
    try {
      await this.session.call('session.select', { file, ...(options ? { options } : {}) });
      await this.loadOriginal();
      if (this.base === kOriginal) await this.open(kOriginal);
    } catch (thrown) {
      this.findProblem = asCallError(thrown);
    }
  }

  /** No source was found: the captured SPIR-V's assembly can be edited in its place. */
  async startFromAssembly(): Promise<void> {
    try {
      await this.#takeAssembly();
      await this.open(kOriginal);
    } catch (thrown) {
      this.findProblem = asCallError(thrown);
    }
  }

  async #takeAssembly(): Promise<void> {
    const answer = await this.session.call('session.status', { view: 'disassembly' });
    this.original = { text: answer.text ?? '', file: '', hash: '', leftOut: answer.left_out_bytes ?? 0, assembly: true };
    this.originalProblem = undefined;
  }

  stop(): void {
    this.keep();
    this.#gone = true;
  }
}

const kLaunchKeys = new Set(['grid', 'block', 'cluster', 'dynamic_shared', 'attributes', 'spec_constants', 'push_constants', 'subgroup_size']);

function tooLong(name: string, leftOut: number): CallError {
  return new CallError('cap_reached', `${name} is longer than the page shows: ${leftOut} bytes are left out`, 'edit the file on disk, then: klab session build --source FILE');
}
