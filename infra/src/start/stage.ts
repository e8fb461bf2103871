import { duration, openTerminal, type Terminal } from '@passover/cli'

/** What the person at the terminal sees of the main job: numbered steps, each with how long it took. */
export class Stage {
  readonly terminal: Terminal
  #step = 0

  constructor(options: { interactive: boolean }) {
    this.terminal = openTerminal({ json: false, jsonl: false, color: true, input: options.interactive })
  }

  line(text = ''): void {
    this.terminal.show(text, () => `${text}\n`)
  }

  /** A step that begins. */
  step(title: string): void {
    this.#step += 1
    this.line(`\n${this.terminal.colors.bold(`${this.#step}. ${title}`)}`)
  }

  detail(text: string): void {
    this.line(text.replace(/^(?=.)/gm, '   '))
  }

  done(text: string, ms?: number): void {
    this.#mark(this.terminal.colors.green('✓'), text, ms)
  }

  failed(text: string, ms?: number): void {
    this.#mark(this.terminal.colors.red('✗'), text, ms)
  }

  #mark(mark: string, text: string, ms: number | undefined): void {
    this.detail(`${mark} ${text}${ms === undefined ? '' : this.terminal.colors.dim(`  ${duration(ms)}`)}`)
  }
}
