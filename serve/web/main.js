// The page: which sweep and view, the data, and what they share. The address's hash restores what is shown.
import { Selection, narrowedFile } from './selection.js'
import { Study, unpack } from './study.js'
import { button, el, num, save, whole } from './format.js'
import * as curves from './view_curves.js'
import * as machine from './view_machine.js'
import * as overview from './view_overview.js'
import * as parallel from './view_parallel.js'
import * as pareto from './view_pareto.js'
import * as runs from './view_runs.js'
import * as slices from './view_slices.js'
import * as table from './view_table.js'
import * as timeline from './view_timeline.js'
import { openPanel, panelNews } from './panel.js'

const VIEWS = {
  overview: ['Overview', overview], parallel: ['Parallel coordinates', parallel], slices: ['Slices', slices],
    curves: ['Curves', curves],
  pareto: ['Pareto', pareto], timeline: ['Timeline', timeline], table: ['Trials', table], machine: ['Machine', machine],
    runs: ['Runs', runs]
}
const OVERVIEW_MS = 2000, REDRAW_SHARE = 8
const $ = id => document.getElementById(id)

export class Failure extends Error {
  constructor(text, hint) { super(text); this.hint = hint }
}

// Fetches an answer of the server: JSON, or an unpacked body.
export async function fetchData(path, options, tries = 5) {
  let answer
  try { answer = await fetch('api/' + path, options) } catch { throw new Failure('The server does not answer.',
    'Is drover serve still running?') }
  if (answer.status === 503 && tries > 1) {
    await new Promise(done => setTimeout(done, 1000))
    return fetchData(path, options, tries - 1)
  }
  const json = answer.headers.get('content-type')?.startsWith('application/json')
  if (!answer.ok) {
    const { error, hint } = json ? await answer.json() : { error: `${answer.status} ${answer.statusText}` }
    throw new Failure(error, hint)
  }
  if (answer.headers.get('content-type')?.startsWith('text/plain')) return { text: await answer.text(),
    size: Number(answer.headers.get('x-log-size') ?? NaN) }
  return json ? answer.json() : unpack(await answer.arrayBuffer(), path.includes('planes=1'))
}

const app = {
  study: null, overview: null, list: null, selection: new Selection(), options: new URLSearchParams(),
  view: 'overview', sweep: null, trial: null,

  option(name, otherwise) { return this.options.get(`${this.view}.${name}`) ?? otherwise },
  setOption(name, value) {
    value === '' ? this.options.delete(`${this.view}.${name}`) : this.options.set(`${this.view}.${name}`, value)
    writeHash()
  },
  go(view) { this.view = view; writeHash(true); mountView() },
  // Changes the ranges of the selection, then draws again. why: for the view that has caused it.
  select(change, why) {
    change(this.selection.ranges)
    soon('select', () => { applySelection(); draw(why ?? 'selection'); writeHash() })
  },
  setFilter(text) { this.selection.filter = text.trim(); this.select(() => {}) },
  openTrial(id) {
    if (this.trial !== id) { this.trial = id; writeHash('trial') }
    openPanel($('panel'), this, id)
  },
  // Back to the entry before the trial, which then is what is shown without it.
  closeTrial() {
    this.trial = null
    leaving = !!history.state?.opened
    leaving ? history.back() : writeHash()
  },
  api(path, options) { return fetchData(`${this.sweep}/${path}`, options) },
  control(command) {
    return this.api('control', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(command) })
  }
}
window.drover = app // for tests and the console

// ---- the hash ---------------------------------------------------------------------------------

let leaving = false
// push: a new entry of the history; 'trial': the one that opens a trial.
function writeHash(push) {
  const p = new URLSearchParams()
  if (app.sweep) p.set('sweep', app.sweep)
  p.set('view', app.view)
  app.selection.write(p)
  for (const [k, v] of app.options) if (k.startsWith(app.view + '.')) p.append('o.' + k, v)
  if (app.trial !== null) p.set('trial', app.trial)
  const hash = '#' + p
  if (hash !== location.hash) history[push ? 'pushState' : 'replaceState']({ opened: push ? push === 'trial' : !!history.state?.opened }, '', hash)
}

function readHash() {
  const p = new URLSearchParams(location.hash.slice(1)), sweep = p.get('sweep')
  app.view = VIEWS[p.get('view')] ? p.get('view') : 'overview'
  app.selection.read(p)
  for (const k of [...app.options.keys()]) if (k.startsWith(app.view + '.')) app.options.delete(k)
  for (const [k, v] of p) if (k.startsWith('o.')) app.options.set(k.slice(2), v)
  app.trial = p.has('trial') ? Number(p.get('trial')) : null
  return sweep
}

// ---- drawing ----------------------------------------------------------------------------------

const due = new Set()
function soon(name, f) {
  if (due.has(name)) return
  due.add(name)
  requestAnimationFrame(() => { due.delete(name); f() })
}

let drawView = null, cost = 0, mounted = null
function draw(why) {
  if (!drawView) return
  const from = performance.now()
  try { drawView(why) } catch (e) { fail(e); throw e }
  cost = performance.now() - from
  drawHead()
}

function mountView() {
  for (const a of $('nav').children) a.toggleAttribute('aria-current', a.dataset.view === app.view)
  const current = $('nav').querySelector('[aria-current]')
  current?.setAttribute('aria-current', 'page')
  if (current) $('nav').scrollLeft = current.offsetLeft - $('nav').offsetLeft - 40
  const root = el('div')
  drawView = null
  const own = VIEWS[app.view][1]
  if (!app.overview && !own.needsNoSweep) return // it is still loading, and mounts the view then
  $('main').replaceChildren(root)
  drawView = own.mount(root, app)
  mounted = app.view
  draw('mount')
}

function drawHead() {
  const { overview: o, selection, study, list } = app
  $('state').hidden = !o
  if (!o) return
  $('state').textContent = o.state
  $('state').className = 'pill ' + o.state
  $('reason').textContent = o.reason ?? ''
  $('headline').textContent = o.best ? `${o.metric} ${num(o.best.value)}, trial ${o.best.id}` : ''
  document.title = `${app.sweep} · drover`
  const bar = $('selection')
  bar.hidden = selection.empty
  if (selection.empty) return
  bar.replaceChildren(el('div', { class: 'bar' }, el('b', {}, `${whole(selection.count)} of ${whole(study.n)} selected`),
    selection.describe(study).map(t => el('span', { class: 'pill' }, t)), el('span', { class: 'grow' }),
    selection.ranges.size ? button('Sweep file with these ranges',
      () => save(`${app.sweep}-narrowed.yaml`, 'text/yaml', narrowedFile(o.file, study, selection))) : null,
    button('Clear', () => { selection.ranges.clear(); app.setFilter('') })))
  $('notice').hidden ||= !list
}

function notice(text, hint) {
  $('notice').hidden = !text
  $('notice').textContent = text ? [text, hint && `Try: ${hint}`].filter(Boolean).join(' ') : ''
}

function fail(e) {
  drawView = null
  $('main').replaceChildren(el('div', { class: 'failed', role: 'alert' }, el('p', {}, e.message),
    e.hint ? el('p', {}, 'Try: ', e.hint) : null, button('Try again', () => start())))
}

// ---- data -------------------------------------------------------------------------------------

function applySelection() { app.selection.apply(app.study) }

let loading = null, again = false, overviewAt = 0
async function refresh() {
  again = true
  if (loading) return loading
  loading = (async () => {
    while (again) {
      again = false
      const { sweep, study } = app
      const wantOverview = performance.now() - overviewAt > OVERVIEW_MS || !app.overview
      const [body, o] = await Promise.all([app.api('cols?planes=1&since=' + study.seq), wantOverview ? app.api('overview') : app.overview])
      if (sweep !== app.sweep) return
      if (wantOverview) overviewAt = performance.now()
      if (!study.apply(body)) { // another sweep has this name now
        app.study = new Study()
        again = true
        continue
      }
      app.overview = o
      notice()
      applySelection()
      draw('data')
      panelNews(app)
      if (!wantOverview && !again) setTimeout(() => app.sweep === sweep && refresh().catch(lost), OVERVIEW_MS)
      await new Promise(done => setTimeout(done, Math.max(300, cost * REDRAW_SHARE)))
    }
  })()
  try { await loading } finally { loading = null }
}

const lost = e => notice(e.message, e.hint)
let events = null, heard = 0
// The server sends a beat every few seconds. Without one the page says since when it knows nothing, and asks itself.
const SILENT_MS = 7000
setInterval(() => {
  if (!events || !heard) return
  const silent = Date.now() - heard > SILENT_MS
  if (silent) notice(`The server has not answered since ${clock(heard)}; what is shown is of then.`)
  else if (app.silent) notice()
  app.silent = silent
}, 1000)
const clock = ms => new Date(ms).toLocaleTimeString()
function alive() { heard = Date.now(); drawAge() }
function drawAge() { $('age').textContent = heard ? `data of ${clock(heard)}` : '' }

function listen() {
  events?.close()
  alive()
  events = new EventSource(`api/${app.sweep}/events`)
  events.addEventListener('beat', alive)
  events.onmessage = e => {
    alive()
    const news = JSON.parse(e.data)
    if (news.error) return notice(news.error)
    const turned = news.state !== app.overview.state || news.reason !== app.overview.reason
    if (news.seq !== app.study.seq || news.epoch !== app.study.epoch || turned) {
      if (turned) overviewAt = 0
      refresh().catch(lost)
    }
  }
  events.onerror = () => notice('The connection to the server is lost; trying again.')
  events.onopen = () => { alive(); notice() }
}

async function openSweep(name) {
  events?.close()
  app.sweep = name
  app.overview = null
  app.study = new Study()
  drawView = null
  overviewAt = 0
  $('sweeps').value = name
  $('main').replaceChildren(el('p', { class: 'loading' }, `Loading ${name} …`))
  writeHash()
  const { study } = app
  const [body, o] = await Promise.all([app.api('cols?planes=1'), app.api('overview')])
  if (study !== app.study) return
  study.apply(body)
  app.overview = o
  overviewAt = performance.now()
  applySelection()
  mountView()
  if (app.trial !== null) openPanel($('panel'), app, app.trial)
  performance.mark('drawn')
  listen()
}

async function loadList() {
  const list = app.list = await fetchData('sweeps')
  $('sweeps').hidden = list.sweeps.length < 1
  $('sweeps').replaceChildren(...list.sweeps.map(s =>
    el('option', { value: s.name, selected: s.name === app.sweep },
    s.state ? `${s.name} (${s.state}, ${whole(s.trials)})` : s.name)))
  if (list.sweeps.some(s => !s.state && !s.error)) setTimeout(() => loadList().catch(() => {}), 500)
  return list
}

async function start() {
  try {
    const wanted = readHash()
    nav()
    if (VIEWS[app.view][1].needsNoSweep) mountView()
    const list = await loadList()
    const name = wanted ?? list.chosen ?? list.sweeps.at(-1)?.name
    if (!name) {
      if (!VIEWS[app.view][1].needsNoSweep) $('main')
        .replaceChildren(el('div', { class: 'empty' }, el('p', {}, `There is no sweep in ${list.root} yet.`),
        el('p', {}, 'Start one: ', el('code', {}, 'drover sweep sweep.yaml'))))
      return setTimeout(() => app.sweep || start(), 3000)
    }
    await openSweep(name)
  } catch (e) { fail(e) }
}

function nav() {
  $('nav').replaceChildren(...Object.entries(VIEWS)
    .map(([id, [title]]) => el('a', { href: '#view=' + id, 'data-view': id, onclick: e => { e.preventDefault(); app.go(id) } },
    title)))
}

// ---- events of the page -----------------------------------------------------------------------

$('sweeps').addEventListener('change', e => { app.selection = new Selection(); app.trial = null; $('panel').hidden = true;
  openSweep(e.target.value).catch(fail) })
addEventListener('resize', () => soon('size', () => document.documentElement.clientWidth && draw('size')))
addEventListener('popstate', () => {
  if (leaving) { leaving = false; history.replaceState(null, ''); return writeHash() }
  const before = app.trial, sweep = readHash()
  if (sweep && sweep !== app.sweep) return openSweep(sweep).catch(fail)
  if (app.study) applySelection()
  if (app.trial === null) $('panel').hidden = true
  else if (app.trial !== before) openPanel($('panel'), app, app.trial)
  if (app.view !== mounted) mountView()
  else draw('selection')
})
const dark = matchMedia('(prefers-color-scheme: dark)')
function setTheme() {
  document.documentElement.dataset.theme = localStorage.getItem('theme') ?? (dark.matches ? 'dark' : 'light')
  draw('theme')
}
dark.addEventListener('change', setTheme)
$('theme').addEventListener('click', () => {
  localStorage.setItem('theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark')
  setTheme()
})
setTheme()
start()
