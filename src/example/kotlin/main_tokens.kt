    /** Takes the ids of tokens. */
    fun run(tokens: IntArray): {{type}} {
        val count = tokens.size
        val total = count
        val given = mapOf(
{{given}}
        ){{first}}
        val results = net.run(given, OUTPUTS{{continued}})
        return {{tail}}
    }
