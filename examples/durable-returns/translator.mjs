// A subagent with a small dictionary.
import { onPass } from '@passover/sdk'

const words = { good: 'guten', morning: 'Morgen' }
await onPass('translator', async (pass) => pass.objective.replace(/\w+/g, (word) => words[word] ?? word))
